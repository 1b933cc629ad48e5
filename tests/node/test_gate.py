"""A storm of takeovers is let in a few at a time, by number and by weight."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from framehold import clock
from framehold.frames import Frame
from framehold.gate import HELD, Gate
from framehold.slots import Ended, Parked
from framehold_core.call import Phase
from framehold_core.events import Evict
from tests.node.desk import Card, Talk, desk, question

pytestmark = pytest.mark.anyio


def call(phase: Phase = Phase.LOOKING) -> Any:
    """As much of a slot as the gate sees; told apart by identity, as slots are."""

    class Seen(SimpleNamespace):
        __hash__ = object.__hash__
        __eq__ = object.__eq__

    return Seen(call=SimpleNamespace(phase=phase))


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_so_many_at_once_and_the_others_in_order() -> None:
    gate, inside = Gate(at_once=2), []

    async def enter(name: int, slot: Any) -> None:
        await gate.enter(slot)
        inside.append(name)

    slots = [call() for _ in range(5)]
    tasks = [asyncio.create_task(enter(name, slot)) for name, slot in enumerate(slots)]
    await turns()
    assert inside == [0, 1]
    slots[1].call.phase = Phase.PARKED
    gate.left(slots[1])
    await turns()
    assert inside == [0, 1, 2]
    gate.left(slots[0], gone=True)
    gate.left(slots[0], gone=True)
    await turns()
    assert inside == [0, 1, 2, 3], "a place is given back once"
    for slot in slots:
        gate.left(slot, gone=True)
    await turns()
    gate.left(slots[4], gone=True)
    await asyncio.gather(*tasks)
    assert inside == [0, 1, 2, 3, 4]


async def test_a_call_that_is_busy_keeps_its_place() -> None:
    """From the lookup through the claim to the frame that stands."""
    gate, slot, other = Gate(at_once=1), call(), call()
    await gate.enter(slot)
    await gate.enter(slot)
    waiting = asyncio.create_task(gate.enter(other))
    for phase in (Phase.LOOKING, Phase.CLAIMING, Phase.REBUILDING):
        slot.call.phase = phase
        gate.left(slot)
        await turns()
        assert not waiting.done()
    slot.call.phase = Phase.RUNNING
    gate.left(slot)
    await waiting


async def test_journals_fit_together_or_wait() -> None:
    """One that is larger than the limit goes alone; a small one does not overtake it for ever."""
    gate = Gate(at_once=10, weight=100)
    first, huge, small = call(), call(), call()
    for slot in (first, huge, small):
        await gate.enter(slot)
    await gate.weigh(first, 60)
    heavy = asyncio.create_task(gate.weigh(huge, 500))
    await turns()
    light = asyncio.create_task(gate.weigh(small, 10))
    await turns()
    assert not heavy.done() and not light.done()
    gate.left(first, gone=True)
    await heavy
    await turns()
    assert not light.done()
    gate.left(huge, gone=True)
    await light


async def test_one_that_goes_while_it_waits_leaves_no_weight_behind() -> None:
    gate = Gate(at_once=10, weight=100)
    first, second, third = call(), call(), call()
    for slot in (first, second, third):
        await gate.enter(slot)
    await gate.weigh(first, 90)
    waiting = asyncio.create_task(gate.weigh(second, 90))
    await turns()
    gate.left(second, gone=True)
    gate.left(first, gone=True)
    await waiting
    await asyncio.wait_for(gate.weigh(third, 100), 1)


async def test_a_journal_that_is_read_again_is_weighed_once() -> None:
    """Its claim was refused, and it is looked up again: it must not wait for itself, and everybody behind it."""
    gate, slot = Gate(at_once=10, weight=100), call()
    for _ in range(3):
        await gate.enter(slot)
        await asyncio.wait_for(gate.weigh(slot, 60), 1)
    gate.left(slot, gone=True)
    other = call()
    await gate.enter(other)
    await asyncio.wait_for(gate.weigh(other, 100), 1)


async def test_a_replay_that_hangs_keeps_nobody_out_for_good() -> None:
    """Its handler may wait for the very call that waits behind it. A lookup keeps its place: it ends by itself."""
    gate, hangs, waits = Gate(at_once=1), call(Phase.REBUILDING), call()
    await gate.enter(hangs)
    waiting = asyncio.create_task(gate.enter(waits))
    await turns()
    gate.relieve(clock.now() + HELD - 0.1)
    await turns()
    assert not waiting.done()
    gate.relieve(clock.now() + HELD)
    await asyncio.wait_for(waiting, 1)
    last = asyncio.create_task(gate.enter(call()))
    await turns()
    gate.left(hangs, gone=True)
    gate.relieve(clock.now() + 2 * HELD)
    await turns()
    assert not last.done(), "a place is given back once"
    gate.left(waits, gone=True)
    await last


async def test_whoever_is_cancelled_on_its_way_in_takes_no_place_along() -> None:
    """Its turn has come, and it does not take it."""
    gate, first = Gate(at_once=1, weight=100), call()
    await gate.enter(first)
    await gate.weigh(first, 100)
    turn = asyncio.create_task(gate.enter(call()))
    await turns()
    gate.left(first, gone=True)
    turn.cancel()
    await turns()
    second, third = call(), call()
    await asyncio.wait_for(gate.enter(second), 1)
    await gate.weigh(second, 100)
    gate.left(second, gone=True)
    await gate.enter(third)


async def test_a_replay_may_wait_for_a_call_that_waits_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two handlers that meet, taken over where one may be rebuilt at a time."""
    monkeypatch.setattr("framehold.gate.HELD", 0.05)
    monkeypatch.setattr("framehold.runtime.SWEEP", 0.02)
    meets = asyncio.Event()

    async def waits(frame: Frame) -> object:
        if frame.replay is not None:
            await meets.wait()
        return await frame.ask(question("waits?"))

    async def comes(frame: Frame) -> object:
        if frame.replay is not None:
            meets.set()
        return await frame.ask(question("comes?"))

    async with desk() as at, asyncio.timeout(10):
        at.runtime._gate._free = 1
        calls = []
        for script in (waits, comes):
            parked = await at.runtime.start(Talk(script, reentrant=True), Card())
            assert isinstance(parked, Parked)
            slot = at.runtime.table.get(parked.call)
            assert slot is not None
            at.runtime.feed(slot, Evict("evicted"))
            calls.append((parked, Talk(script, reentrant=True)))

        async def answered(parked: Parked, talk: Talk) -> object:
            answers = dict.fromkeys(parked.questions, "yes")
            return await at.runtime.retry(at.claims(parked), answers, talk, Card())

        assert await asyncio.gather(*(answered(*call) for call in calls)) == [Ended("yes"), Ended("yes")]
