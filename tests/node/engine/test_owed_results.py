"""Results that calls owe to the store: each is written when it is due, one after the other."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from framehold.engine.owed_results import OwedResults
from framehold.engine.slot import Slot
from tests.kit.processes import until

pytestmark = pytest.mark.anyio


class _Call:
    owed: tuple[str, ...] = ("a result",)


class _Frame:
    settles = False


class _Slot:
    call, frame = _Call(), _Frame()


async def test_a_result_that_is_not_due_with_the_first_one_is_written_too() -> None:
    first, second = cast(Slot, _Slot()), cast(Slot, _Slot())
    written: list[Slot] = []

    def write(slot: Slot, event: Any) -> None:
        written.append(slot)

    results = OwedResults(0.02, write)
    results.add(first)
    await asyncio.sleep(0.005)  # the second one is due that much later
    results.add(second)
    await until(lambda: len(written) == 2, "both writes")
    assert written == [first, second]


async def test_a_result_waits_while_its_handler_has_something_to_do() -> None:
    """The handler may come to its next question, whose write takes the result along. Others are written meanwhile."""
    busy, other = _Slot(), _Slot()
    busy.frame = _Frame()
    busy.frame.settles = True
    written: list[Any] = []
    results = OwedResults(0.005, lambda slot, event: written.append(slot))
    for slot in (busy, other):
        results.add(cast(Slot, slot))
    await until(lambda: written == [other], "the write of the other call")
    busy.frame.settles = False
    await until(lambda: written == [other, busy], "its own write")


async def test_what_a_call_owes_is_written_once() -> None:
    slot, other = _Slot(), _Slot()
    written: list[Any] = []
    results = OwedResults(0.01, lambda slot, event: written.append(slot))
    results.add(cast(Slot, slot))
    results.add(cast(Slot, other))
    slot.call = _Call()
    slot.call.owed = ("a result", "another one")
    results.add(cast(Slot, slot))
    await until(lambda: len(written) == 2, "both writes")
    assert written == [slot, other]
    slot.call.owed = ("a result",)
    for item in (slot, other, slot):
        results.add(cast(Slot, item))
    await until(lambda: len(written) == 4, "both writes")
    assert written[2:] == [other, slot]


def test_a_result_is_written_though_an_event_loop_ended_before_one_was_due() -> None:
    """A server that is opened again in another event loop writes on."""
    written: list[Any] = []
    results = OwedResults(0.01, lambda slot, event: written.append(slot))

    async def life(slot: _Slot) -> None:
        results.add(cast(Slot, slot))

    async def writes(slot: _Slot) -> None:
        await life(slot)
        await until(lambda: slot in written, "the write", 5.0)

    asyncio.run(life(_Slot()))
    asyncio.run(writes(_Slot()))
