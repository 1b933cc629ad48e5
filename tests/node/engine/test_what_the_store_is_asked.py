"""Strategy hold costs one store write a round and two an effect, by the store's own count."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from tests.node.nodes import node
from tests.store.server import RedisServer, running
from tests.wire import Caller, accepted

pytestmark = pytest.mark.anyio

Counted = Callable[[], int]
"""How many scripts the store has run since the node was ready."""
Made = Callable[[str], AbstractAsyncContextManager[tuple[Caller, Counted]]]


def scripts(redis: RedisServer) -> int:
    """How many scripts this Redis has run. No lease is renewed while a test of this file runs."""
    with redis.client() as client:
        told = client.info("commandstats")
    assert isinstance(told, dict)
    return int(told.get("cmdstat_evalsha", {"calls": 0})["calls"])


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A node over a Redis of its own, its caller, and the count."""
    monkeypatch.setenv("ENTRIES", str(tmp_path / "entries"))

    @asynccontextmanager
    async def made(target: str) -> AsyncIterator[tuple[Caller, Counted]]:
        with running(RedisServer()) as redis:
            async with (
                node(target, tmp_path, store_url=redis.url, lease_ttl="300") as child,
                Caller(child.url) as caller,
            ):
                before = scripts(redis)
                yield caller, lambda: scripts(redis) - before

    return made


async def test_one_write_a_round_and_two_an_effect(counted: Made) -> None:
    """Three questions and three effects: four rounds, ten writes, and not one read. The first call writes its code
    besides, once for all calls."""
    async with counted("tests/node/reentrant_server.py") as (caller, count):
        for name, writes in (("Ada", [4, 7, 10, 11]), ("Bob", [14, 17, 20, 21])):
            counts = []
            heard = await caller.call("sequence", arguments={"name": name})
            while heard.result["resultType"] == "input_required":
                counts.append(count())
                answers = {key: accepted(word="w") for key in heard.asked}
                heard = await caller.retry("sequence", heard.token, answers, arguments={"name": name})
            assert [*counts, count()] == writes and heard.text.startswith("w w w")


async def test_a_tool_that_never_asks_never_asks_the_store(counted: Made) -> None:
    async with counted("tests/node/three_rounds.py") as (caller, count):
        for number in range(5):
            assert (await caller.call("never", arguments={"name": str(number)})).text == f"{number}: unasked"
        assert count() == 0
