"""A storm of takeovers is let in a few at a time, by number and by weight."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from framehold.engine.replies import Ended, Parked
from framehold.engine.takeover_gate import MAX_WAIT, TakeoverGate
from framehold.frame.frame import Frame
from framehold_core.call import Phase
from framehold_core.clock import Clock
from framehold_core.events import Evict, Pass
from framehold_core.ids import NodeId
from framehold_core.suspects import PATIENCE
from framehold_store import system_clock as clock
from tests.kit.engine import Carrier, ScriptHandler, engine, question, turns

pytestmark = pytest.mark.anyio


def call(phase: Phase = Phase.LOOKING) -> Any:
    """As much of a slot as the gate sees; told apart by identity, as slots are."""

    class Seen(SimpleNamespace):
        __hash__ = object.__hash__  # type: ignore[assignment]  # a SimpleNamespace has none
        __eq__ = object.__eq__

    return Seen(call=SimpleNamespace(phase=phase))


def gate_of(at_once: int, weight: int = 100) -> TakeoverGate:
    return TakeoverGate(clock.system_clock(), at_once=at_once, weight=weight)


async def test_so_many_at_once_and_the_others_in_order() -> None:
    gate, inside = gate_of(2), []

    async def enter(name: int, slot: Any) -> None:
        await gate.enter(slot)
        inside.append(name)

    slots = [call() for _ in range(5)]
    tasks = [asyncio.create_task(enter(name, slot)) for name, slot in enumerate(slots)]
    await turns(5)
    assert inside == [0, 1]
    slots[1].call.phase = Phase.PARKED
    gate.release(slots[1])
    await turns(5)
    assert inside == [0, 1, 2]
    gate.release(slots[0], gone=True)
    gate.release(slots[0], gone=True)
    await turns(5)
    assert inside == [0, 1, 2, 3], "a place is given back once"
    for slot in slots:
        gate.release(slot, gone=True)
    await turns(5)
    gate.release(slots[4], gone=True)
    await asyncio.gather(*tasks)
    assert inside == [0, 1, 2, 3, 4]


async def test_a_call_that_is_busy_keeps_its_place() -> None:
    """From the lookup through the claim to the frame that stands."""
    gate, slot, other = gate_of(1), call(), call()
    await gate.enter(slot)
    await gate.enter(slot)
    waiting = asyncio.create_task(gate.enter(other))
    for phase in (Phase.LOOKING, Phase.CLAIMING, Phase.REBUILDING):
        slot.call.phase = phase
        gate.release(slot)
        await turns(5)
        assert not waiting.done()
    slot.call.phase = Phase.RUNNING
    gate.release(slot)
    await waiting


async def test_journals_fit_together_or_wait() -> None:
    """One that is larger than the limit goes alone; a small one does not overtake it for ever."""
    gate = gate_of(10)
    first, huge, small = call(), call(), call()
    for slot in (first, huge, small):
        await gate.enter(slot)
    await gate.weigh(first, 60)
    heavy = asyncio.create_task(gate.weigh(huge, 500))
    await turns(5)
    light = asyncio.create_task(gate.weigh(small, 10))
    await turns(5)
    assert not heavy.done() and not light.done()
    gate.release(first, gone=True)
    await heavy
    await turns(5)
    assert not light.done()
    gate.release(huge, gone=True)
    await light


async def test_one_that_goes_while_it_waits_leaves_no_weight_behind() -> None:
    gate = gate_of(10)
    first, second, third = call(), call(), call()
    for slot in (first, second, third):
        await gate.enter(slot)
    await gate.weigh(first, 90)
    waiting = asyncio.create_task(gate.weigh(second, 90))
    await turns(5)
    gate.release(second, gone=True)
    gate.release(first, gone=True)
    await waiting
    await asyncio.wait_for(gate.weigh(third, 100), 1)


async def test_a_journal_that_is_read_again_is_weighed_once() -> None:
    """Its claim was refused, and it is looked up again: it must not wait for itself, and everybody behind it."""
    gate, slot = gate_of(10), call()
    for _ in range(3):
        await gate.enter(slot)
        await asyncio.wait_for(gate.weigh(slot, 60), 1)
    gate.release(slot, gone=True)
    other = call()
    await gate.enter(other)
    await asyncio.wait_for(gate.weigh(other, 100), 1)


async def test_a_replay_that_hangs_keeps_nobody_out_for_good() -> None:
    """Its handler may wait for the very call that waits behind it. A lookup keeps its place: it ends by itself."""
    gate, hangs, waits = gate_of(1), call(Phase.REBUILDING), call()
    await gate.enter(hangs)
    waiting = asyncio.create_task(gate.enter(waits))
    await turns(5)
    gate.release_slow(clock.now() + MAX_WAIT - 0.1)
    await turns(5)
    assert not waiting.done()
    gate.release_slow(clock.now() + MAX_WAIT)
    await asyncio.wait_for(waiting, 1)
    last = asyncio.create_task(gate.enter(call()))
    await turns(5)
    gate.release(hangs, gone=True)
    gate.release_slow(clock.now() + 2 * MAX_WAIT)
    await turns(5)
    assert not last.done(), "a place is given back once"
    gate.release(waits, gone=True)
    await last


async def test_a_suspect_whose_replay_takes_long_keeps_its_turn() -> None:
    """It gives its place back, and the next suspect waits for as long as rule 27 of docs/protocol.md says."""
    now = [0.0]
    gate, first, second = TakeoverGate(Clock(lambda: now[0], lambda: now[0], bytes)), call(), call()
    await gate.enter(first)
    assert await gate.take_turn(first)
    first.call.phase = Phase.REBUILDING
    await gate.enter(second)
    waiting = asyncio.create_task(gate.take_turn(second))
    for now[0] in (0.0, MAX_WAIT, PATIENCE - 0.1, PATIENCE):
        await turns(5)
        gate.release_slow(now[0])
        await turns(5)
        assert waiting.done() == (now[0] == PATIENCE), now
    assert await waiting


async def test_whoever_is_cancelled_on_its_way_in_takes_no_place_along() -> None:
    gate, first = gate_of(1), call()
    await gate.enter(first)
    await gate.weigh(first, 100)
    turn = asyncio.create_task(gate.enter(call()))
    await turns(5)
    gate.release(first, gone=True)
    turn.cancel()
    await turns(5)
    second, third = call(), call()
    await asyncio.wait_for(gate.enter(second), 1)
    await gate.weigh(second, 100)
    gate.release(second, gone=True)
    await gate.enter(third)


async def test_a_replay_may_wait_for_a_call_that_waits_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two handlers that meet, taken over where one may be rebuilt at a time."""
    monkeypatch.setattr("framehold.engine.takeover_gate.MAX_WAIT", 0.05)
    monkeypatch.setattr("framehold.engine.runtime.SWEEP", 0.02)
    meets = asyncio.Event()

    async def waits(frame: Frame) -> object:
        if frame.replay is not None:
            await meets.wait()
        return await frame.ask(question("waits?"))

    async def comes(frame: Frame) -> object:
        if frame.replay is not None:
            meets.set()
        return await frame.ask(question("comes?"))

    async with engine() as at, asyncio.timeout(10):
        at.runtime._gate._free = 1
        calls = []
        for script in (waits, comes):
            parked = await at.runtime.start(ScriptHandler(script, reentrant=True), Carrier())
            assert isinstance(parked, Parked)
            slot = at.runtime.table.get(parked.call)
            assert slot is not None
            at.runtime.feed(slot, Evict("evicted"))
            calls.append((parked, ScriptHandler(script, reentrant=True)))

        async def answered(parked: Parked, handler_entry: ScriptHandler) -> object:
            answers = dict.fromkeys(parked.questions, "yes")
            return await at.runtime.retry(at.claims(parked), answers, handler_entry, Carrier())

        assert await asyncio.gather(*(answered(*call) for call in calls)) == [Ended("yes"), Ended("yes")]


async def test_what_came_while_a_call_was_looked_up_is_not_passed_on() -> None:
    """Another read decides for it (docs/protocol.md, rule 5). It may then be passed on itself, once."""
    told: list[str] = []

    def arrival(name: str) -> Any:
        return SimpleNamespace(carrier=SimpleNamespace(passed_on=lambda address: told.append(f"{name} to {address}")))

    async with engine() as at:
        records = at.runtime._records
        records.addresses = {NodeId("b"): "http://b"}
        slot: Any = SimpleNamespace(arrivals={1: arrival("first"), 2: arrival("late")})
        waiting: Any = (SimpleNamespace(waiter=1), SimpleNamespace(waiter=3))
        records._pass_on(slot, Pass(NodeId("b"), offered=True), waiting)
        records._pass_on(slot, Pass(NodeId("b")), waiting)
    assert told == ["first to http://b"]
