"""Strategy hold costs one store write a round and two an effect, by the store's own count."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from framehold_store.scripts import SCRIPTS
from tests.node.nodes import node
from tests.store.server import RedisServer, running
from tests.wire import Caller, accepted

pytestmark = pytest.mark.anyio

Counted = Callable[[], int]
"""How many scripts the store has run for calls since the node was ready."""
Made = Callable[[str], AbstractAsyncContextManager[tuple[Caller, Counted]]]


_OF_THE_NODE = {SCRIPTS[name].sha for name in ("keys", "summary", "members", "tools")}
"""What a node reads for itself, whatever is called: records in a scan, the list of nodes, paused tools."""


def scripts(redis: RedisServer) -> int:
    """How many scripts this Redis has run for calls. No lease is renewed while a test of this file runs."""
    with redis.client() as client:
        ran = [entry["command"].decode("latin-1").split() for entry in client.slowlog_get(10_000)]
    found = [words for words in ran if words[0] == "EVALSHA" and words[1] not in _OF_THE_NODE]
    return sum(words[1] != SCRIPTS["strings"].sha or ":node:" not in words[3] for words in found)


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A node over a Redis of its own, its caller, and the count."""
    monkeypatch.setenv("ENTRIES", str(tmp_path / "entries"))

    @asynccontextmanager
    async def made(target: str) -> AsyncIterator[tuple[Caller, Counted]]:
        with running(RedisServer(options=("--slowlog-log-slower-than", "0", "--slowlog-max-len", "10000"))) as redis:
            async with (
                node(target, tmp_path, store_url=redis.url, lease_ttl="300", result_delay="1") as child,
                Caller(child.url) as caller,
            ):
                before = scripts(redis)
                yield caller, lambda: scripts(redis) - before

    return made


async def test_one_write_a_round_and_one_an_effect(counted: Made) -> None:
    """Three questions and three effects: four rounds, seven writes, and not one read: the result of an effect goes with
    the write behind it. The first call writes its code besides, once for all calls."""
    async with counted("tests/node/reentrant_server.py") as (caller, count):
        for name, writes in (("Ada", [3, 5, 7, 8]), ("Bob", [10, 12, 14, 15])):
            counts = []
            reply = await caller.call("sequence", arguments={"name": name})
            while reply.result["resultType"] == "input_required":
                counts.append(count())
                answers = {key: accepted(word="w") for key in reply.asked}
                reply = await caller.retry("sequence", reply.token, answers, arguments={"name": name})
            assert [*counts, count()] == writes and reply.text.startswith("w w w")


async def test_a_tool_that_never_asks_never_asks_the_store(counted: Made) -> None:
    async with counted("tests/node/three_rounds.py") as (caller, count):
        for number in range(5):
            assert (await caller.call("never", arguments={"name": str(number)})).text == f"{number}: unasked"
        assert count() == 0
