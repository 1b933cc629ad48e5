"""Somebody else writes the store: what can't be read is named in the log, and costs its own call only."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.node.trouble import call_of, node_at, refused
from tests.store.server import RedisServer, running

pytestmark = pytest.mark.anyio


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """A Redis that the test may spoil."""
    with running(RedisServer()) as server:
        yield server


@pytest.fixture(autouse=True)
def every_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def _no_epoch(client: Any, record: str, journal: str) -> None:
    client.hset(record, "epoch", "many")


def _another_type(client: Any, record: str, journal: str) -> None:
    client.delete(record)
    client.set(record, "no hash")


def _no_round(client: Any, record: str, journal: str) -> None:
    client.hset(record, "round", "-1")


def _newer(client: Any, record: str, journal: str) -> None:
    client.hset(record, mapping={"v": "99", "epoch": "3"})


def _journal_type(client: Any, record: str, journal: str) -> None:
    client.delete(journal)
    client.set(journal, "no list")


def _journal_entry(client: Any, record: str, journal: str) -> None:
    client.lset(journal, 0, b"\xff no entry")


Spoil = Callable[[Any, str, str], None]


UNREADABLE = {
    _no_epoch: "is no count",
    _no_round: "is no count",
    _another_type: "it is no hash",
    _journal_type: "its journal is no list",
}


@pytest.mark.parametrize("spoil", UNREADABLE)
async def test_garbage_under_a_live_frame(redis: RedisServer, spoil: Spoil, caplog: pytest.LogCaptureFixture) -> None:
    """It is written again by one more request, and its client notices nothing."""
    async with node_at(redis, 30) as one:
        reply = await one.ask("a")
        with redis.client() as client:
            spoil(client, *(f"fh:trouble:{{{call_of(reply)}}}:{kind}" for kind in "rj"))
        before = Counter(one.runtime.store.request_counts)
        reply = await one.answer(reply, "a")
        assert reply.messages == ["a 2?"] and one.entered == ["a"]
        record = one.record(reply)
        assert record["round"] == "2" and record["v"] == "1"
        assert Counter(one.runtime.store.request_counts) - before >= Counter(commit=2, heal=1)
        assert await one.complete(reply, "a") == "a is done"
    assert "Traceback" not in caplog.text


async def test_a_newer_record_under_a_live_frame(redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    """Its write is refused by name in the log, its client told to come again; its neighbour notices nothing."""
    async with node_at(redis, 30) as one:
        reply, other = await one.ask("a"), await one.ask("b")
        with redis.client() as client:
            _newer(client, *(f"fh:trouble:{{{call_of(reply)}}}:{kind}" for kind in "rj"))
        result = await one.answer(reply, "a")
        assert refused(result) and "Traceback" not in str(result.message)
        assert await one.complete(other, "b") == "b is done"
    assert call_of(reply)[:6] in caplog.text and "the store did not take a commit" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("spoil", "said", "logged"),
    [
        *((spoil, "This call was lost", f"{logged}): it counts as missing") for spoil, logged in UNREADABLE.items()),
        (_newer, "", "its format is 99, this release reads 1"),
        (_journal_entry, "what is recorded of it can't be read", "journal entry 0 is corrupted"),
    ],
)
async def test_garbage_in_a_call_without_a_frame(
    redis: RedisServer, spoil: Spoil, said: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    """After a restart the record is all there is: where it can't be read the client hears what became of its call."""
    async with node_at(redis, 30) as one:
        reply = await one.ask("a")
    async with node_at(redis, 30) as one:
        with redis.client() as client:
            spoil(client, *(f"fh:trouble:{{{call_of(reply)}}}:{kind}" for kind in "rj"))
        result = await one.answer(reply, "a")
        if said:
            assert result.result["isError"] and said in result.text
        else:
            assert refused(result) and "Traceback" not in str(result.message)
        assert one.entered == []
        assert await one.complete(await one.ask("b"), "b") == "b is done"
    assert logged in caplog.text and "Traceback" not in caplog.text


async def test_garbage_in_the_registry(redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    """Entries that are no leases are passed over, each named once in the log; whoever is looked up is found."""
    async with node_at(redis, 30) as one:
        with redis.client() as client:
            ends = time.time() * 1000 + 15_000
            client.zadd("fh:trouble:nodes", dict.fromkeys(("no name!", "liar", "list", "late"), ends))
            client.set("fh:trouble:node:late", json.dumps([2, 2, "i", "b", 10**400, "late", "", "live", "", "", ""]))
            client.set("fh:trouble:node:liar", "[1, 2, what]")
            client.rpush("fh:trouble:node:list", "x")
        reply = await one.ask("a", rounds=1)
        done = [await one.answer(reply, "a", rounds=1) for _ in range(3)]
        assert {item.text for item in done} == {"a is done"} and one.entered == ["a"]
    for name in ("no name!", "liar", "list", "late"):
        assert caplog.text.count(f"an entry that is no lease, or one that has ended: {name!r}") == 1
