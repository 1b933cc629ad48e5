"""Row 4: a node is drained (SIGTERM)."""

from __future__ import annotations

import asyncio
import statistics
import time
from functools import partial

import pytest

from tests.fleet.faults import DEADLINE, EFFECTS, MARKED, UNMARKED, FaultyFleet
from tests.fleet.trial import Trial, Trials
from tests.kit.processes import until

pytestmark = [pytest.mark.anyio, pytest.mark.fleet, pytest.mark.alone]


async def at_one_node(made: FaultyFleet, *calls: Trial) -> str:
    """Begin calls at one node; its name."""
    name = made.other()
    for call in calls:
        await call.begin(made.url(name))
        assert call.owner == name
    return name


async def test_reentrant_calls_are_handed_off_and_resume_elsewhere_at_once(
    made: FaultyFleet, router: str, trial: Trials, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next retry waits for no lease; nobody is told to come again."""
    calls = [trial("errand", MARKED) for _ in range(5)]
    kept = trial("errand", UNMARKED)
    name = await at_one_node(made, *calls, kept)
    made.drain(name)
    await made.ready(name, False)
    await until(lambda: all(made.record(call.heard.token)["state"] == "released" for call in calls), "the hand-off")
    took = []
    for call in calls:
        started = time.monotonic()
        reply = await call.answer(router)
        took.append(time.monotonic() - started)
        assert reply.messages == [f"{call.name} two?"] and reply.headers["framehold-node"] != name
        call.heard = reply
    with capsys.disabled():
        print(f"\nresume of a call that was handed off: {1000 * min(took):.0f} to {1000 * max(took):.0f} ms")
    # docs/guarantees.md: at most 200 ms. Of five the third: one may have met another process on this machine.
    assert statistics.median(took) <= 0.2
    await made.completes([*calls, kept], router)
    await made.left(name)


async def test_a_reentrant_round_that_runs_is_finished_first(made: FaultyFleet, router: str, trial: Trials) -> None:
    """Who waits gets its reply; what parks then is handed off too."""
    call = trial("errand", MARKED)
    name = await at_one_node(made, call)
    request = await made.at_its_gate(call, router)
    made.drain(name)
    await made.ready(name, False)
    made.open(call.name)
    call.heard = await request
    assert call.heard.messages == [f"{call.name} two?"] and call.owner == name
    await made.left(name)
    await made.completes([call], router)


async def test_unmarked_calls_are_kept_until_the_deadline_and_then_lost(
    made: FaultyFleet, router: str, trial: Trials
) -> None:
    """One is answered in time, by the node that drains; the other's client is told."""
    early, late, new = (trial("errand", UNMARKED) for _ in range(3))
    name = await at_one_node(made, early, late)
    started = time.monotonic()
    made.drain(name)
    await made.ready(name, False)
    assert (await new.begin(router)).headers["framehold-node"] != name
    assert (await early.insist(router)).headers["framehold-node"] == name
    assert await early.finish(router) == early.done
    await made.left(name)
    assert time.monotonic() - started >= DEADLINE - 0.5, "somebody was still waited for"
    await made.is_lost(late, router, ran=["first"])
    await made.completes([new], router, entered=1)
    assert made.ledger.count(early.name, "entered") == 1


async def test_calls_are_handed_off_when_a_silent_store_answers_again(
    made: FaultyFleet, router: str, trial: Trials
) -> None:
    """The store is paused when the drain begins. The node waits for it, and no call waits for a lease."""
    calls = [trial("errand", MARKED) for _ in range(5)]
    name = await at_one_node(made, *calls)
    node = made.nodes[name]
    with made.redis.paused():
        made.drain(name)
        await until(lambda: "no call is handed off until it does" in node.log(), "the drain that waits for the store")
    await made.left(name)
    assert "node drained: 5 calls handed off" in node.log() and "were not handed off" not in node.log()
    await made.completes(calls, router)


async def test_all_nodes_are_restarted_one_by_one_under_load(made: FaultyFleet, trial: Trials) -> None:
    """No client sees an error: calls begin, are answered and end while every node goes."""
    routers = [router.url for router in made.routers]
    done: list[str] = []
    over = asyncio.Event()

    async def load(number: int) -> None:
        while not over.is_set():
            call = trial("errand", (MARKED, UNMARKED)[number % 2])
            reply = await call.begin(routers[number % 2])
            while reply.status == 200 and reply.result["resultType"] == "input_required":
                await asyncio.sleep(0.05)
                reply = await call.answer(routers[(number + 1) % 2])
                call.heard = reply if "inputRequests" in reply.message.get("result", {}) else call.heard
            assert (reply.status, reply.text) == (200, call.done), reply.message
            done.append(call.name)

    async def roll() -> None:
        for name in tuple(made.nodes):
            await made.grow()
            before = len(done)
            made.drain(name)
            await made.left(name)
            await until(partial(lambda wanted: len(done) > wanted, before + 8), "calls that end")
        over.set()

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(load(number))
        group.create_task(roll())
    assert len(done) >= 24
    assert all(made.ledger.effects(name) == EFFECTS for name in done)
