"""What the runbook says of a store that is full: nothing is lost, and all goes on when there is room again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.node.trouble import node_at, refused
from tests.processes import until
from tests.store.server import RedisServer, running

pytestmark = pytest.mark.anyio


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """A Redis that refuses what it has no room for, as it must."""
    with running(RedisServer(options=("--maxmemory-policy", "noeviction"))) as server:
        yield server


async def test_a_full_store_refuses_rounds_and_loses_none(redis: RedisServer) -> None:
    """It refuses heartbeats too: after a lease nobody is answered. With room again each call goes on in its frame."""
    async with node_at(redis, 1.5) as one:
        first, second = await asyncio.gather(one.ask("a"), one.ask("b"))
        with redis.client() as client:
            client.config_set("maxmemory", "1")
            assert refused(await one.answer(first, "a"))
            await until(lambda: not one.window_open, "the end of its lease")
            assert refused(await one.answer(second, "b"))
            assert (await one.caller.call("silent")).text == "silence", "what never asks needs no store"
            client.config_set("maxmemory", "0")
        done = [*await asyncio.gather(one.complete(first, "a"), one.complete(second, "b"))]
        assert done == ["a is done", "b is done"] and sorted(one.entered) == ["a", "b"]
