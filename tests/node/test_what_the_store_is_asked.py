"""Strategy hold costs one store write a round and two an effect, by the store's own count."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.node.nodes import Caller, accepted, node
from tests.store.server import RedisServer

pytestmark = pytest.mark.anyio


def scripts(redis: RedisServer) -> int:
    """How many scripts this Redis has run, leases apart: none is renewed while a test of this file runs."""
    with redis.client() as client:
        told = client.info("commandstats")
    assert isinstance(told, dict)
    return int(told.get("cmdstat_evalsha", {"calls": 0})["calls"])


async def test_one_write_a_round_and_two_an_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three questions and three effects: four rounds, ten writes, and not one read."""
    monkeypatch.setenv("ENTRIES", str(tmp_path / "entries"))
    redis = RedisServer()
    redis.start()
    try:
        settings = {"store_url": redis.url, "lease_ttl": "300"}
        async with (
            node("tests/node/reentrant_server.py", tmp_path, **settings) as child,
            Caller(child.url) as caller,
        ):
            before = scripts(redis)
            counted = []
            heard = await caller.call("sequence", arguments={"name": "Ada"})
            while heard.result["resultType"] == "input_required":
                counted.append(scripts(redis) - before)
                answers = {key: accepted(word="w") for key in heard.asked}
                heard = await caller.retry("sequence", heard.token, answers, arguments={"name": "Ada"})
            counted.append(scripts(redis) - before)
            assert counted == [3, 6, 9, 10] and heard.text.startswith("w w w")
    finally:
        redis.remove()


async def test_a_tool_that_never_asks_never_asks_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENTRIES", str(tmp_path / "entries"))
    redis = RedisServer()
    redis.start()
    try:
        settings = {"store_url": redis.url, "lease_ttl": "300"}
        async with (
            node("tests/node/three_rounds.py", tmp_path, **settings) as child,
            Caller(child.url) as caller,
        ):
            before = scripts(redis)
            for number in range(5):
                assert (await caller.call("never", arguments={"name": str(number)})).text == f"{number}: unasked"
            assert scripts(redis) == before
    finally:
        redis.remove()
