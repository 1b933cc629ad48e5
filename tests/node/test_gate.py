"""A storm of takeovers is let in a few at a time, by number and by weight."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from framehold.gate import Gate
from framehold_core.call import Phase

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
