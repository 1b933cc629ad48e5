"""Effects whose callers are cancelled, and events that come twice or for an effect that is not here."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import framehold
from framehold.engine.replies import Ended
from framehold.frame.frame import Frame
from framehold.frame.once import run_and_pack, wait_for_outcome
from framehold.sdk.present_call import Present, current
from framehold_core.events import Evict
from framehold_core.writes import once_digest
from framehold_store.values import PackedResult, Values
from tests.kit.effects import SOON
from tests.kit.engine import Carrier, ScriptHandler, engine, question, turns

pytestmark = pytest.mark.anyio
DONE = PackedResult("json", b"1")


def pending() -> asyncio.Future[PackedResult]:
    return asyncio.get_running_loop().create_future()


async def test_a_cancelled_caller_waits_for_the_outcome() -> None:
    outcome = pending()
    caller = asyncio.create_task(wait_for_outcome(outcome))
    await turns(3)
    for _ in range(3):
        caller.cancel("why")
        await turns(3)
        assert not caller.done()
    outcome.set_result(DONE)
    with pytest.raises(asyncio.CancelledError, match="why"):
        await caller


@pytest.mark.parametrize("cancelled_before", [0, 1, 2])
async def test_where_the_frame_is_gone_a_cancelled_caller_waits_for_nothing(cancelled_before: int) -> None:
    gone, outcome = False, pending()
    caller = asyncio.create_task(wait_for_outcome(outcome, lambda: gone))
    await turns(3)
    for _ in range(cancelled_before):
        caller.cancel()
        await turns(3)
    gone = True
    caller.cancel()
    await turns(5)
    waits = not caller.done()
    outcome.set_result(DONE)
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not waits


async def test_a_cancelled_effect_has_no_outcome() -> None:
    """One that breaks off from within has one: its caller is told that it is in doubt."""
    values, never = Values(pickle=False, limit=1000), asyncio.Event()
    running = asyncio.create_task(run_and_pack(values, "k", never.wait))
    await turns(3)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    async def breaks_off() -> None:
        raise asyncio.CancelledError

    packed = await run_and_pack(values, "k", breaks_off)
    with pytest.raises(framehold.InDoubt, match="broke off from within"):
        values.unpack(packed.codec, packed.data).get()


def test_a_ctrl_c_that_is_met_in_an_effect_ends_the_process() -> None:
    """Where nobody handles SIGINT Python raises it in whatever code runs."""

    async def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_and_pack(Values(pickle=False, limit=1000), "k", interrupted).send(None)


async def asks_beside_an_effect(frame: Frame) -> str:
    current.set(Present(None, None, frame))  # type: ignore[arg-type]  # it asks for no session
    result = await framehold.once("k", effect)
    return f"{result} {await frame.ask(question('q'))}"


async def effect() -> str:
    return "it"


@pytest.mark.parametrize("rebuilt", [False, True])
@pytest.mark.parametrize("key", ["k", "of no effect here"])
async def test_an_event_of_an_effect_changes_nothing_that_is_decided(key: str, rebuilt: bool) -> None:
    """It comes twice, or after the frame was built again from the record."""
    async with engine(shared=True) as at, asyncio.timeout(SOON):
        handler = ScriptHandler(asks_beside_an_effect, reentrant=True)
        parked: Any = await at.runtime.start(handler, Carrier())
        slot = at.runtime.table.get(parked.call)
        assert slot is not None and slot.frame is not None
        if rebuilt:
            at.runtime.feed(slot, Evict())
            answers: dict[str, Any] = {}
            again = ScriptHandler(asks_beside_an_effect, reentrant=True)
            await at.runtime.retry(at.claims(parked), answers, again, Carrier())
        effects, digest = at.frame(parked).recorded.effects, once_digest(key)
        for _ in range(2):
            effects.decided(digest, may_run=True)
            effects.result_kept(digest)
            effects.results_stored([digest])
        assert effects.settled and not effects.busy
        last = ScriptHandler(asks_beside_an_effect, reentrant=True)
        ended = await at.runtime.retry(at.claims(parked), dict.fromkeys(parked.questions, "a"), last, Carrier())
        assert ended == Ended("it a")
