"""The account of the calls of one node: whatever takes a frame away, its call is in exactly one class afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from framehold.engine.replies import Parked
from framehold.engine.slot import Slot
from framehold.frame.frame import Frame
from framehold_core import events as ev
from framehold_core.ids import Waiter
from framehold_core.value import replace
from tests.kit.engine import Carrier, Engine, ScriptHandler, engine, question, turns
from tests.kit.processes import until

pytestmark = pytest.mark.anyio


async def asks_and_hangs(frame: Frame) -> object:
    await frame.ask(question("a?"))
    return await asyncio.Event().wait()


async def asks_otherwise(frame: Frame) -> object:
    return await frame.ask(question("b?"))


def slot_of(at: Engine, call: Parked) -> Slot:
    slot = at.runtime.table.get(call.call)
    assert slot is not None
    return slot


async def answered(at: Engine, call: Parked, script: Callable[[Frame], Awaitable[object]] = asks_and_hangs) -> object:
    answers = dict.fromkeys(call.questions, "yes")
    return await at.runtime.retry(at.claims(call), answers, ScriptHandler(script, reentrant=True), Carrier())


async def evicted(at: Engine, call: Parked) -> None:
    at.runtime.feed(slot_of(at, call), ev.Evict("evicted"))


async def diverged(at: Engine, call: Parked) -> None:
    await evicted(at, call)
    await answered(at, call, asks_otherwise)


async def left(at: Engine, call: Parked) -> None:
    """The client leaves within its round."""
    coming = asyncio.create_task(answered(at, call))
    await turns(20)
    coming.cancel()
    await asyncio.gather(coming, return_exceptions=True)


async def overran(at: Engine, call: Parked) -> None:
    coming = asyncio.create_task(answered(at, call))
    await turns(20)
    at.runtime.feed(slot_of(at, call), ev.Overran())
    await coming


async def met_a_bug(at: Engine, call: Parked) -> None:
    at.runtime.feed(slot_of(at, call), ev.Start(Waiter(0)))


async def expired(at: Engine, call: Parked) -> None:
    slot = slot_of(at, call)
    slot.call = replace(slot.call, expires=at.runtime.clock.now())
    at.runtime.feed(slot, ev.Expired())


async def handed_off(at: Engine, call: Parked) -> None:
    await at.runtime.drain(0.0)


WAYS = [
    (evicted, True, "asleep"),
    (diverged, True, "asleep"),
    (left, True, "asleep"),
    (left, False, "lost"),
    (overran, True, "asleep"),
    (overran, False, "lost"),
    (met_a_bug, True, "asleep"),
    (met_a_bug, False, "lost"),
    (handed_off, True, "handed off"),
    (expired, True, "none"),
    (expired, False, "none"),
]


@pytest.mark.parametrize(("way", "marked", "where"), WAYS)
async def test_a_call_that_lost_its_frame_is_in_one_class(
    way: Callable[[Engine, Parked], Awaitable[None]], marked: bool, where: str
) -> None:
    """Its record stays open. Another frame can carry it on: it is asleep here, or handed off. None can: it is lost."""
    async with engine(shared=True) as at:
        call = await at.runtime.start(ScriptHandler(asks_and_hangs, reentrant=marked), Carrier())
        assert isinstance(call, Parked)
        await way(at, call)
        await turns(20)
        table = at.runtime.table
        stats = at.runtime.stats()
        found = {
            "held": table.frames,
            "asleep": stats.asleep,
            "handed off": stats.released,
            "lost": table.lost_last_hour(),
        }
        assert {name: count for name, count in found.items() if count} == ({} if where == "none" else {where: 1})


async def test_a_sleeping_call_is_forgotten_when_its_last_token_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the sweep: a node without a shared store has no heartbeat, which counts them."""
    monkeypatch.setattr("framehold.engine.runtime.SWEEP", 0.01)
    async with engine() as at:
        handler = ScriptHandler(asks_and_hangs, reentrant=True)
        handler.lifetime = 0.1
        call = await at.runtime.start(handler, Carrier())
        assert isinstance(call, Parked)
        await evicted(at, call)
        assert [*at.runtime.table._asleep] == [call.call]
        await until(lambda: not at.runtime.table._asleep, "the call to be forgotten")
