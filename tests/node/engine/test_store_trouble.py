"""A store that is down, slow or gone back, and a node that slept through its lease."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from framehold_core.call import Phase
from framehold_core.value import replace
from framehold_fleet.members.membership import LIVE
from framehold_store import system_clock as clock
from tests.node.nodes import entries, node
from tests.node.scraping import scraped
from tests.node.trouble import call_of, insist, node_at, refused
from tests.processes import until
from tests.store.server import RedisServer
from tests.wire import Caller, Reply

pytestmark = pytest.mark.anyio


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """A Redis that the test starts, stops and pauses."""
    server = RedisServer()
    yield server
    server.remove()


async def test_a_store_that_is_down_at_the_start(redis: RedisServer) -> None:
    """The node starts. What never asks is served; what asks is told to come again, until the store is there."""
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


async def test_a_store_that_is_restarted_with_its_data(redis: RedisServer) -> None:
    """20 parked calls go on where they were, each entered once."""
    redis.start()
    async with node_at(redis, 4) as one:
        names = [f"n{number}" for number in range(20)]
        parked = await asyncio.gather(*map(one.ask, names))
        with redis.client() as client:
            client.save()
        redis.stop()
        redis.start()
        assert one.record(parked[0])["epoch"] == "1"
        done = await asyncio.gather(*map(one.complete, parked, names))
        assert done == [f"{name} is done" for name in names]
        assert sorted(one.entered) == sorted(names)
        assert one.runtime.counts["ungated"] == 0


async def test_a_store_that_comes_back_empty_is_healed(redis: RedisServer) -> None:
    """Live frames write their whole journals again, one epoch on, and the calls complete."""
    redis.start()
    async with node_at(redis, 4) as one:
        names = [f"n{number}" for number in range(20)]
        parked = await asyncio.gather(*map(one.ask, names))
        whole = one.record(parked[0])
        redis.stop()
        redis.start()
        assert one.record(parked[0]) == {}
        second = await insist(lambda: one.answer(parked[0], names[0]))
        healed = one.record(second)
        assert int(healed["epoch"]) == int(whole["epoch"]) + 1
        assert (healed["state"], healed["round"], healed["n"]) == ("open", "2", "3") and "a:1" in healed
        assert {name: healed[name] for name in ("target", "args", "boot", "reentrant", "principal")} == {
            name: whole[name] for name in ("target", "args", "boot", "reentrant", "principal")
        }
        with redis.client() as client:
            assert client.llen(f"fh:trouble:{{{call_of(second)}}}:j") == 3
        parked[0] = second
        done = await asyncio.gather(*map(one.complete, parked, names))
        assert done == [f"{name} is done" for name in names]
        assert sorted(one.entered) == sorted(names)


async def test_a_pause_shorter_than_the_lease_goes_unnoticed(redis: RedisServer) -> None:
    """Answers are delivered without the store; only the next question waits for it."""
    redis.start()
    async with node_at(redis, 4) as one:
        reply = await one.ask("a")
        with redis.paused():
            answering = asyncio.create_task(one.answer(reply, "a"))
            await until(lambda: one.resumed, "the delivery")
            assert not answering.done()
        second = await answering
        assert second.messages == ["a 2?"]
        assert one.record(second)["epoch"] == "1"
        assert await one.complete(second, "a") == "a is done"


async def test_a_client_that_leaves_while_its_round_is_committed_finds_it_again(redis: RedisServer) -> None:
    """The set of questions stands: the same answers, sent again, get it."""
    redis.start()
    async with node_at(redis, 4) as one:
        reply = await one.ask("a")
        with redis.paused():
            answering = asyncio.create_task(one.answer(reply, "a"))
            await until(lambda: one.resumed, "the delivery")
            (slot,) = one.runtime.table
            await until(lambda: slot.call.phase is Phase.PARKING, "the commit")
            answering.cancel()
            await until(lambda: not slot.call.waiting, "the client to be gone")
        second = await insist(lambda: one.answer(reply, "a"))
        assert second.messages == ["a 2?"] and one.resumed == one.entered == ["a"]
        assert await one.complete(second, "a") == "a is done"


async def test_a_pause_longer_than_the_lease_stops_delivery_until_the_frame_is_verified(redis: RedisServer) -> None:
    """The window closes by itself: nothing is consumed; afterwards the epoch is raised and the call completes."""
    redis.start()
    async with node_at(redis, 2) as one:
        reply = await one.ask("a")
        with redis.paused():
            await until(lambda: not one.window_open, "the window to close")
            assert refused(await one.answer(reply, "a")) and not one.resumed
            over = one.runtime.heartbeat.lease.until + 0.2
            await until(lambda: clock.now() > over, "the lease to end in the store too")
        second = await insist(lambda: one.answer(reply, "a"))
        assert second.messages == ["a 2?"] and int(one.record(second)["epoch"]) >= 2
        assert await one.complete(second, "a") == "a is done"
        assert one.entered == ["a"] and one.resumed == ["a", "a"]


async def test_a_park_that_fails_keeps_its_frame_and_the_same_retry_joins_it(redis: RedisServer) -> None:
    """The answers were taken before the store went: sent again, they are not taken twice."""
    redis.start()
    async with node_at(redis, 30) as one:
        reply = await one.ask("a")
        with redis.client() as client:
            client.save()
        redis.stop()
        assert refused(await one.answer(reply, "a"))
        assert one.resumed == ["a"]
        assert refused(await one.answer(reply, "a"))
        redis.start()
        second = await insist(lambda: one.answer(reply, "a"))
        assert second.messages == ["a 2?"]
        assert one.resumed == one.entered == ["a"] and one.runtime.counts["resumed"] == 1
        assert await one.complete(second, "a") == "a is done"


async def test_an_outcome_leaves_ungated_inside_the_window_and_is_counted(redis: RedisServer) -> None:
    """It is written when the store is back; a duplicate hears the same."""
    redis.start()
    async with node_at(redis, 6) as one:
        reply = await one.ask("a", rounds=1)
        with redis.client() as client:
            client.save()
        redis.stop()
        done = await one.answer(reply, "a", rounds=1)
        assert done.status == 200 and done.text == "a is done"
        assert one.runtime.counts["ungated"] == 1
        redis.start()
        await until(lambda: one.record(reply).get("state") == "done", "the outcome to be written")
        again = await insist(lambda: one.answer(reply, "a", rounds=1))
        assert again.text == "a is done" and one.entered == ["a"]


async def test_a_node_that_slept_through_its_lease_verifies_its_frames(redis: RedisServer, tmp_path: Path) -> None:
    """It wakes as a new incarnation: each frame's epoch is raised before it runs again, and none is entered twice."""
    redis.start()
    noted = tmp_path / "entries"
    names = [f"n{number}" for number in range(5)]
    settings = {"store_url": redis.url, "namespace": "trouble", "node_id": "one", "lease_ttl": "2"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENTRIES", str(noted))
        async with node("tests/node/three_rounds.py", tmp_path, **settings) as child, Caller(child.url) as caller:
            parked = [await caller.call("one", arguments={"name": name}) for name in names]
            with redis.client() as client:
                child.pause()
                await until(lambda: not client.exists("fh:trouble:node:one"), "the lease to run out")
                child.resume()
                await until(lambda: client.exists("fh:trouble:node:one"), "a new incarnation")

                async def answer(reply: Reply, name: str) -> str:
                    retry = lambda: caller.retry(  # noqa: E731 - sent again and again
                        "one", reply.token, reply.accept(word="x"), arguments={"name": name}
                    )
                    return (await insist(retry)).text

                assert await asyncio.gather(*map(answer, parked, names)) == [f"{name}: x" for name in names]
                for reply in parked:
                    record = client.hgetall(f"fh:trouble:{{{call_of(reply)}}}:r")
                    assert (record[b"epoch"], record[b"state"]) == (b"2", b"done")
            assert entries(noted) == names
            assert "the node lease lapsed" in child.log() and "Traceback" not in child.log()
