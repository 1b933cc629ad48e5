"""A store that went back: live frames write what it lacks as soon as their node notices, and before they are handed off
(docs/protocol.md, rule 7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from framehold.engine import rechecks
from framehold_core.call import Phase
from tests.node.nodes import NodeProcess, entries, node
from tests.node.trouble import Node, insist, node_at
from tests.processes import until
from tests.store.server import RedisServer, running
from tests.wire import Caller, Reply, accepted

pytestmark = pytest.mark.anyio

TARGET = "tests/node/draining_server.py"
TTL = 2.0


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """A Redis that keeps nothing."""
    with running(RedisServer()) as server:
        yield server


@pytest.fixture
async def pair(redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[NodeProcess]]:
    """Two nodes over it."""
    monkeypatch.setenv("ENTRIES", str(tmp_path / "entries"))
    common = {"store_url": redis.url, "lease_ttl": str(TTL), "drain_timeout": "10", "log_level": "info"}
    async with AsyncExitStack() as stack:
        made = []
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            made.append(await stack.enter_async_context(node(TARGET, tmp_path / name, node_id=name, **common)))
        yield made


async def answered(caller: Caller, name: str, reply: Reply) -> Reply:
    answers = {key: accepted(word="yes") for key in reply.asked}
    return await insist(lambda: caller.retry("marked", reply.token, answers, arguments={"name": name}))


async def ten_parked(caller: Caller) -> dict[str, Reply]:
    """Begin ten calls, and give what each asks, by its name."""
    return {name: await caller.call("marked", arguments={"name": name}) for name in (f"n{n}" for n in range(10))}


async def all_completed(caller: Caller, parked: dict[str, Reply]) -> None:
    """Answer both questions of each call."""

    async def completed(name: str) -> str:
        return (await answered(caller, name, await answered(caller, name, parked[name]))).text

    assert await asyncio.gather(*map(completed, parked)) == [f"{name} yes yes" for name in parked]


def each_effect(names: Iterable[str]) -> list[str]:
    """The entries of these calls if each of their effects ran once, in the order of the alphabet."""
    return sorted(f"{at}-{name}" for name in names for at in ("begin", "middle"))


def rests(here: Node) -> bool:
    """Whether nothing is compared any more."""
    return all(slot.call.phase is Phase.PARKED and slot.call.outbox.in_flight is None for slot in here.runtime.table)


async def test_a_store_that_comes_back_empty_is_healed_while_all_calls_rest(redis: RedisServer) -> None:
    """No client comes, and no round runs: each record is there again, one epoch on."""
    async with node_at(redis, TTL) as one:
        names = [f"n{number}" for number in range(30)]
        parked = await asyncio.gather(*map(one.ask, names))
        redis.stop()
        redis.start()
        await until(lambda: all(one.record(reply) for reply in parked), "the records")
        await until(lambda: rests(one), "the end of the pass")
        healed = [one.record(reply) for reply in parked]
        assert {(item["state"], item["round"], item["n"]) for item in healed} == {("open", "1", "1")}
        assert one.runtime.counts["healed"] == 30
        assert await asyncio.gather(*map(one.complete, parked, names)) == [f"{name} is done" for name in names]
        assert sorted(one.entered) == sorted(names)


async def test_a_write_that_is_behind_has_all_frames_compared(redis: RedisServer) -> None:
    """The leases are there, so no heartbeat shows it: one call finds out, and the others are healed with it."""
    async with node_at(redis, 30.0) as one:
        parked = [await one.ask(name) for name in ("a", "b", "c")]
        with redis.client() as client:
            client.delete(*client.keys("fh:trouble:{*"))
        assert (await insist(lambda: one.answer(parked[0], "a"))).messages == ["a 2?"]
        await until(lambda: all(one.record(reply) for reply in parked), "the records")
        await until(lambda: rests(one), "the end of the pass")
        assert one.runtime.counts["healed"] == 3


async def test_only_so_many_are_compared_at_the_same_time(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd of frames must not fill the queue of the store."""
    monkeypatch.setattr(rechecks, "AT_ONCE", 4)
    most = 0
    async with node_at(redis, TTL) as one:
        parked = [await one.ask(f"n{number}") for number in range(20)]

        def look(*_: object) -> None:
            nonlocal most
            most = max(most, sum(slot.call.outbox.in_flight is not None for slot in one.runtime.table))

        one.runtime.observers.stepped.connect(look)
        with redis.client() as client:
            client.flushall()
        await until(lambda: all(one.record(reply) for reply in parked), "the records")
        assert 1 <= most <= 4


async def test_what_was_healed_outlives_its_node(pair: list[NodeProcess], redis: RedisServer, tmp_path: Path) -> None:
    """SIGKILL, a while after the store was emptied: another node carries each call on from what was written again."""
    first, second = pair
    async with Caller(first.url) as at_first, Caller(second.url) as at_second:
        parked = await ten_parked(at_first)
        with redis.client() as client:
            client.flushall()
            await until(lambda: len(client.keys("fh:*}:r")) == 10, "the records")
        first.kill()
        await all_completed(at_second, parked)
    assert sorted(entries(tmp_path / "entries")) == each_effect(parked)


async def test_a_node_that_drains_heals_what_the_store_lacks_before_it_goes(
    pair: list[NodeProcess], redis: RedisServer, tmp_path: Path
) -> None:
    """At once, before any heartbeat could notice: the release itself finds the store behind."""
    first, second = pair
    async with Caller(first.url) as at_first, Caller(second.url) as at_second:
        parked = await ten_parked(at_first)
        with redis.client() as client:
            client.flushall()
        first.terminate()
        await until(lambda: not first.alive, "the node's end")
        await all_completed(at_second, parked)
    assert "10 calls handed off" in first.log()
    assert sorted(entries(tmp_path / "entries")) == each_effect(parked)


async def test_a_node_that_finds_no_lease_of_its_own_takes_no_call(
    pair: list[NodeProcess], redis: RedisServer, tmp_path: Path
) -> None:
    """All leases are gone at once, so none of the others proves anything (rule 25)."""
    first, second = pair
    async with Caller(first.url) as at_first, Caller(second.url) as at_second:
        reply = await at_first.call("unmarked", arguments={"name": "Ada"})
        answers = {key: accepted(word="yes") for key in reply.asked}
        with redis.client() as client:
            client.delete(*client.keys("fh:*:node:*"))
        result = await insist(lambda: at_second.retry("unmarked", reply.token, answers, arguments={"name": "Ada"}))
    assert result.text == "Ada yes" and entries(tmp_path / "entries") == ["entered-Ada"]


async def test_a_call_that_nobody_can_restore_is_lost_and_its_client_is_told(
    pair: list[NodeProcess], redis: RedisServer
) -> None:
    """The node died first, then the store forgot: the token is good and proves that the call was there."""
    first, second = pair
    async with Caller(first.url) as at_first, Caller(second.url) as at_second:
        reply = await at_first.call("marked", arguments={"name": "Ada"})
        first.kill()
        with redis.client() as client:
            client.flushall()
        result = await answered(at_second, "Ada", reply)
        assert result.result["isError"] and "lost: the store of this node has no trace of it" in result.text
        assert "after round 1 of its questions, and may still be running" in result.text
    assert "though its token is valid" in second.log()
