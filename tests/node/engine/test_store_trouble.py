"""A store that is down, slow or gone back, and a node that slept through its lease."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from framehold.app import assemble
from framehold.config import Settings
from framehold.engine import rechecks
from framehold.engine.doors.door import Door
from framehold.engine.doors.store_room import StoreRoom
from framehold.engine.replies import Ended, Parked
from framehold.frame.frame import Frame
from framehold_core.call import Phase
from framehold_core.effects import Reason
from framehold_core.errors import StoreUnavailable
from framehold_core.lease import LeaseReply, NodeRecord
from framehold_core.value import replace
from framehold_fleet.members.membership import LIVE
from framehold_fleet.models.nodes import OF_STORE
from framehold_store import system_clock
from framehold_store.base import MemoryUse
from framehold_store.memory import MemoryStore
from tests.kit.client import Caller
from tests.kit.effects import SOON
from tests.kit.engine import Carrier, ScriptHandler, claims, question, reason
from tests.kit.metrics import scraped
from tests.kit.nodes import entries, node
from tests.kit.operators import call_of, marked, pair
from tests.kit.outages import Node, insist, node_at, refused
from tests.kit.processes import until
from tests.kit.redis_server import RedisServer
from tests.store.rights import RIGHTS, as_user, restrict

pytestmark = pytest.mark.anyio


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """A Redis that the test starts and stops."""
    server = RedisServer(options=("--maxmemory-policy", "noeviction"))
    yield server
    server.remove()


async def test_a_store_that_is_down_at_the_start(redis: RedisServer) -> None:
    async with node_at(redis, 4) as one:
        assert (await one.caller.call("silent")).text == "silence"
        arguments = {"name": "a", "rounds": 2}
        assert refused(await one.caller.call("ask", arguments=arguments))
        assert (await one.caller.call("silent")).text == "silence"
        redis.start()
        reply = await insist(lambda: one.caller.call("ask", arguments=arguments))
        assert await one.complete(reply, "a") == "a is done"


@pytest.mark.parametrize("trouble", ["silent", "full"])
async def test_what_may_ask_is_refused_at_the_door_while_the_store_takes_no_writes(
    redis: RedisServer, trouble: str
) -> None:
    """Its handler is not entered: what it does before its first question would be done, and then refused. What has
    shown that it asks nothing is served on."""
    redis.start()
    arguments = {"name": "b", "rounds": 2}
    async with node_at(redis, 3) as one:
        reply = await one.ask("a")
        for name in ("careful", "polite", "marked"):
            assert (await one.caller.call(name)).status == 200
        one.entered.clear()
        with redis.client() as client:
            if trouble == "full":
                client.config_set("maxmemory", 1)
            else:
                client.save()
                redis.stop()
            beat = one.runtime.heartbeat
            await until(lambda: beat.missing_from == math.inf, "a heartbeat without its reply")
            for closed in (False, True):
                if closed:
                    await until(lambda: not one.window_open, "the lease to run out")
                for name in ("ask", "careful", "marked"):
                    refusal = await one.caller.call(name, arguments=arguments if name == "ask" else {})
                    assert refused(refusal), name
                    assert "nothing was started" in refusal.text and "store" in refusal.text
                assert (await one.caller.call("silent")).text == "silence"
                assert (await one.caller.call("polite")).text == "thanks"
            assert set(one.entered) == {"polite"}
            assert (await scraped(one.caller))['rounds_total{outcome="refused",tool="ask"}'] == 2
            if trouble == "full":
                client.config_set("maxmemory", 0)
            else:
                redis.start()
        assert await one.complete(await insist(lambda: one.caller.call("ask", arguments=arguments)), "b") == "b is done"
        assert await one.complete(reply, "a") == "a is done"


async def test_a_new_call_waits_a_moment_for_a_lease_that_only_ran_out(redis: RedisServer) -> None:
    """The process stood still for too long: its next heartbeat is due, and the store answers."""
    redis.start()
    async with node_at(redis, 30) as one:
        beat = one.runtime.heartbeat
        beat.lease = replace(beat.lease, until=-math.inf)
        asking = asyncio.create_task(one.ask("a"))
        served = await one.caller.call("silent")
        assert served.text == "silence" and one.entered == []
        beat.announce(LIVE)
        assert await one.complete(await asking, "a") == "a is done"


async def test_what_is_not_known_of_a_tool_is_decided_for_safety(redis: RedisServer) -> None:
    """A process that never reached its store has seen nothing of its tools: what takes a context may ask."""
    async with node_at(redis, 3) as one:
        assert refused(await one.caller.call("polite")) and refused(await one.caller.call("marked"))
        assert one.entered == []
        assert (await one.caller.call("silent")).text == "silence"
        # It has no way to ask that can be seen; it is known after its first call.
        assert refused(await one.caller.call("careful")) and refused(await one.caller.call("careful"))
        assert one.entered == ["careful"]
        # Without a store the node would take its drain's time to end.
        redis.start()


TARGET = "tests/node/draining_server.py"
TTL = 2.0


def rests(here: Node) -> bool:
    """Whether nothing is compared any more."""
    return all(slot.call.phase is Phase.PARKED and slot.call.outbox.in_flight is None for slot in here.runtime.table)


async def test_a_store_that_comes_back_empty_is_healed_while_all_calls_rest(redis: RedisServer) -> None:
    """No client comes, and no round runs: each record is there again, one epoch on."""
    redis.start()
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
    redis.start()
    async with node_at(redis, 30.0) as one:
        parked = [await one.ask(name) for name in ("a", "b", "c")]
        with redis.client() as client:
            client.delete(*client.keys("fh:trouble:{*"))
        assert (await insist(lambda: one.answer(parked[0], "a"))).messages == ["a 2?"]
        await until(lambda: all(one.record(reply) for reply in parked), "the records")
        await until(lambda: rests(one), "the end of the pass")
        assert one.runtime.counts["healed"] == 3


async def test_a_call_that_was_taken_over_is_written_again_whole(redis: RedisServer) -> None:
    """With the rounds that were recorded before its frame came here."""
    redis.start()
    async with pair(redis, "whole", marked, lease_ttl=TTL) as (a, _), asyncio.timeout(SOON):
        asked = await a.caller.call("marked")
        await a.operator.evict(call_of(asked.token))
        again = await a.caller.retry("marked", asked.token, asked.accept(word="one"))
        with redis.client() as client:
            client.flushall()
            await until(lambda: client.keys(f"fh:whole:{{{call_of(asked.token)}*"), "the record")
        await a.operator.evict(call_of(asked.token))
        done = await insist(lambda: a.caller.retry("marked", again.token, again.accept(word="two")))
    assert done.text == " one two"


async def test_only_so_many_are_compared_at_the_same_time(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd of frames must not fill the queue of the store."""
    monkeypatch.setattr(rechecks, "AT_ONCE", 4)
    most = 0
    redis.start()
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


async def test_a_node_that_finds_no_lease_of_its_own_takes_no_call(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All leases are gone at once, so none of the others proves anything (docs/protocol.md, rule 25)."""
    redis.start()
    monkeypatch.setenv("ENTRIES", str(tmp_path / "entries"))
    async with AsyncExitStack() as stack:
        callers = []
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            settings = {"store_url": redis.url, "lease_ttl": str(TTL), "node_id": name}
            process = await stack.enter_async_context(node(TARGET, tmp_path / name, **settings))
            callers.append(await stack.enter_async_context(Caller(process.url)))
        reply = await callers[0].call("unmarked", arguments={"name": "Ada"})
        answers = reply.accept(word="yes")
        with redis.client() as client:
            client.delete(*client.keys("fh:*:node:*"))
        result = await insist(lambda: callers[1].retry("unmarked", reply.token, answers, arguments={"name": "Ada"}))
    assert result.text == "Ada yes" and entries(tmp_path / "entries") == ["entered-Ada"]


class Deaf(MemoryStore):
    """A store that answers no registration while it is `deaf`."""

    deaf = False

    async def register(self, node: NodeRecord, ttl: float, over: bytes = b"") -> LeaseReply:
        if self.deaf:
            raise StoreUnavailable("no answer came in time")
        return await super().register(node, ttl, over)


async def test_a_process_that_is_not_registered_claims_no_call() -> None:
    """Another one of its name lives, and has the frame (docs/protocol.md, rule 4)."""
    store = Deaf(system_clock.now)
    async with AsyncExitStack() as stack:
        first, second = (
            assemble(
                Settings(node_id="one", advertise_url="", keys=("k" * 64,)), store, True, system_clock.system_clock()
            )
            for _ in "12"
        )
        await first.open()
        stack.push_async_callback(first.close)
        asked = await first.start(ScriptHandler(asks), Carrier())
        assert isinstance(asked, Parked)
        store.deaf = True
        await second.open()
        stack.push_async_callback(second.close)
        named, answers = claims(asked, first), dict.fromkeys(asked.questions, "yes")
        refused = await second.retry(named, answers, ScriptHandler(asks), Carrier())
        assert reason(refused) is Reason.UNAVAILABLE
        assert await first.retry(named, answers, ScriptHandler(asks), Carrier()) == Ended("yes")


async def asks(frame: Frame) -> object:
    return await frame.ask(question("sure?"))


def room_of(node: Node) -> StoreRoom:
    door = node.runtime.door
    assert isinstance(door, Door)
    return door.store_room


async def test_the_last_tenth_is_for_calls_that_exist(redis: RedisServer) -> None:
    """Within a heartbeat new calls that need the store are refused, before anything is written or entered. The others
    go on to their ends, and when there is room again all are taken."""
    redis.start()
    arguments = {"name": "b", "rounds": 2}
    async with node_at(redis, 3) as one:
        reply = await one.ask("a")
        for name in ("silent", "polite"):
            assert (await one.caller.call(name)).status == 200
        with redis.client() as client:
            client.config_set("maxmemory", int(client.info("memory")["used_memory"] / 0.93))
            room = room_of(one)
            await until(lambda: room.trouble, "the node to know")
            one.entered.clear()
            keys = client.dbsize()
            for _ in range(3):
                refusal = await one.caller.call("ask", arguments=arguments)
                assert refused(refusal) and int(refusal.headers["retry-after"]) >= 1
                assert "nothing was started" in refusal.text
                assert "MiB in use (maxmemory), and the rest is kept for calls that exist" in refusal.text
            assert not one.entered and client.dbsize() == keys
            assert one.runtime.table.met[OF_STORE, False][0] == 3
            assert (await one.caller.call("silent")).text == "silence"
            assert (await one.caller.call("polite")).text == "thanks"
            assert await one.complete(reply, "a") == "a is done"
            client.config_set("maxmemory", "1gb")
        asked = await insist(lambda: one.caller.call("ask", arguments=arguments))
        assert await one.complete(asked, "b") == "b is done"


@pytest.mark.parametrize("lacks", ["a right", "a limit"])
async def test_a_store_that_does_not_say_is_taken_to_have_room(
    redis: RedisServer, lacks: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "framehold.engine.doors")
    redis.start()
    if lacks == "a right":
        restrict(redis, *RIGHTS)
        with redis.client() as client:
            client.config_set("maxmemory", 1 << 20)
    url = as_user(redis.url) if lacks == "a right" else redis.url
    async with node_at(redis, 3, url) as one:
        renewed = one.runtime.heartbeat.lease.beat + 2
        await until(lambda: one.runtime.heartbeat.lease.beat >= renewed or lacks == "a right", "two heartbeats")
        await one.runtime.door.open()
        assert room_of(one).trouble is None
    texts = [record.getMessage() for record in caplog.records if "how full" in record.getMessage()]
    assert len(texts) == 1 and "INFO" in texts[0] and "maxmemory" in texts[0]


async def test_of_several_servers_the_fullest_counts(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call may come to lie at any of them. What the store said last stands while it does not answer."""
    redis.start()
    async with node_at(redis, 30) as one:
        room = room_of(one)
        for use, short in ((MemoryUse(90, 100), True), (MemoryUse(89, 100), False), (None, False)):

            async def memory(use: MemoryUse | None = use) -> MemoryUse | None:
                return use

            monkeypatch.setattr(one.runtime.store, "memory", memory)
            await room.read()
            assert (room.trouble is not None) is short
