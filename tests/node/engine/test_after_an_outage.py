"""A store that was away for longer than a lease lasts: all node leases are gone at once, and nobody has died."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.node.nodes import entries, node
from tests.node.trouble import insist
from tests.store.server import RedisServer, running
from tests.wire import Caller, Reply, accepted

pytestmark = pytest.mark.anyio

TARGET = "tests/node/draining_server.py"
TTL = 3.0


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """A Redis that is away for a while, and has lost nothing but what ran out."""
    with running(RedisServer(appendonly=True)) as server:
        yield server


@pytest.fixture
async def callers(redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[Caller]]:
    """A client of each of two nodes."""
    monkeypatch.setenv("ENTRIES", str(tmp_path / "entries"))
    async with AsyncExitStack() as stack:
        callers = []
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            settings = {"store_url": redis.url, "node_id": name, "lease_ttl": str(TTL), "log_level": "info"}
            process = await stack.enter_async_context(node(TARGET, tmp_path / name, **settings))
            callers.append(await stack.enter_async_context(Caller(process.url)))
        yield callers


async def test_no_call_is_taken_from_a_node_that_only_comes_back_later(
    callers: list[Caller], redis: RedisServer, tmp_path: Path
) -> None:
    """Each node registers anew when it next looks. Whoever is first must not take the others for dead: a call that may
    not be entered twice would be lost, with its frame alive and well."""
    names = [f"n{number}" for number in range(12)]

    async def completed(at: int, name: str, reply: Reply) -> str:
        answers = {key: accepted(word="yes") for key in reply.asked}
        other = callers[1 - at]
        last = await insist(lambda: other.retry("unmarked", reply.token, answers, arguments={"name": name}))
        return last.text

    parked = [await callers[i % 2].call("unmarked", arguments={"name": name}) for i, name in enumerate(names)]
    redis.kill()
    await asyncio.sleep(TTL + 0.5)
    redis.start()
    result = await asyncio.gather(*(completed(i % 2, name, parked[i]) for i, name in enumerate(names)))
    assert result == [f"{name} yes" for name in names]
    assert entries(tmp_path / "entries") == [f"entered-{name}" for name in names]
