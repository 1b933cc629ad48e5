"""What a frame's handler sees when rounds change and when its call ends, and what a runtime keeps of it: nothing."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator

import pytest

from framehold.engine import runtime, tasks
from framehold.engine.replies import Ended
from framehold.frame.frame import Frame
from framehold_core.effects import Reason
from framehold_core.ids import prefix
from framehold_store import system_clock as clock
from tests.cycles import cycles
from tests.node.desk import Card, Desk, desk, question, reason, shielded, turns
from tests.processes import until

pytestmark = [pytest.mark.anyio, pytest.mark.serial]


@pytest.fixture
async def at() -> AsyncIterator[Desk]:
    async with desk() as opened:
        yield opened


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.time = 1000.0


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Turns the node's clock; what is due is looked for at every turn of a few milliseconds."""
    held = Clock()
    monkeypatch.setattr(clock, "now", lambda: held.time)
    monkeypatch.setattr(runtime, "SWEEP", 0.005)
    return held


# Context variables

carried: contextvars.ContextVar[str] = contextvars.ContextVar("carried")
own: contextvars.ContextVar[str] = contextvars.ContextVar("own", default="unset")


def _arrival(text: str) -> Card:
    """A request in whose context the transport said something; `own` is as the process began with it."""
    carried.set(text)
    own.set("as it was")
    return Card()


async def test_what_the_transport_says_is_fresh_and_what_the_handler_set_stays(at: Desk) -> None:
    """In gathered children too; also where the handler changed a variable that each request brings along."""

    async def child(frame: Frame, name: str) -> str:
        own.set(name)
        await frame.ask(question(name))
        return f"{carried.get()}/{own.get()}"

    async def handler(frame: Frame) -> str:
        own.set("mine")
        await frame.ask(question("first"))
        result = f"{carried.get()}/{own.get()}"
        return " ".join((result, *await asyncio.gather(child(frame, "a"), child(frame, "b"))))

    asked = await at.start(handler, card=_arrival("one"))
    asked = await at.retry(asked, dict.fromkeys(asked.questions, "x"), _arrival("two"))
    done = await at.retry(asked, dict.fromkeys(asked.questions, "x"), _arrival("three"))
    assert done == Ended("two/mine three/a three/b")


async def test_what_a_handler_sets_is_seen_by_the_request_that_carries_its_round_alone(at: Desk) -> None:
    """One that joins the round keeps what its own transport said, and so does the one that carries it."""
    go_on = asyncio.Event()

    async def handler(frame: Frame) -> str:
        await frame.ask(question("q"), "q")
        own.set("mine")
        await go_on.wait()
        return "done"

    async def sends(text: str) -> str:
        card = _arrival(text)
        assert await at.retry(asked, {"q": "x"}, card) == Ended("done")
        assert card.handler_context is None, "the request keeps nothing of the handler"
        return f"{carried.get()}/{own.get()}"

    asked = await at.parked(handler)
    first = asyncio.create_task(sends("one"))
    await until(lambda: at.counts["resumed"], "the round to run")
    second = asyncio.create_task(sends("two"))
    await turns(3)
    go_on.set()
    assert [*await asyncio.gather(first, second)] == ["one/mine", "two/as it was"]


# Ends


async def test_an_expired_call_is_torn_down_and_can_ask_nothing_more(hands: Clock) -> None:
    """`finally` sees the cancellation; an ask there raises it again instead of parking for ever."""
    seen: list[str] = []

    async def handler(frame: Frame) -> str:
        try:
            return str(await frame.ask(question("patience?")))
        finally:
            try:
                await frame.ask(question("goodbye?"))
            except asyncio.CancelledError:
                seen.append("silenced")

    async with desk(token_ttl=600) as at:
        asked = await at.parked(handler)
        hands.time += 599
        await turns(50)
        assert not seen
        hands.time += 1
        await until(lambda: seen == ["silenced"], "the teardown")
        assert at.counts["expired"] == 1 and not len(at.runtime.table)
        assert reason(await at.retry(asked, dict.fromkeys(asked.questions, "x"))) is Reason.LOST


async def test_a_round_that_runs_too_long_is_cancelled(hands: Clock) -> None:
    """Whoever waits hears which limit was met."""
    started = asyncio.Event()

    async def handler(frame: Frame) -> str:
        started.set()
        await asyncio.get_running_loop().create_future()
        return "unreachable"

    async with desk(max_round=30) as at:
        running = asyncio.ensure_future(at.start(handler))
        await started.wait()
        hands.time += 30
        assert reason(await asyncio.wait_for(running, 5)) is Reason.OVERRAN
        assert at.counts["overran"] == 1


async def test_closing_tears_down_every_frame_and_names_the_handlers_that_will_not_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler that swallows its cancellation is counted and logged, and holds up the shutdown for a bounded time."""
    monkeypatch.setattr(tasks, "CANCEL_TIMEOUT", 0.05)
    let_go, ended = asyncio.Event(), []

    async def good(frame: Frame) -> str:
        try:
            return str(await frame.ask(question("q")))
        finally:
            ended.append("good")

    async def stubborn(frame: Frame) -> str:
        while not let_go.is_set():
            try:
                await frame.ask(question("q"))
            except asyncio.CancelledError:
                await shielded(let_go)
        ended.append("stubborn")
        return "late"

    async with desk() as at:
        for handler in (good, good, stubborn):
            await at.parked(handler)
        calls = ", ".join(f"{slot.tool} {prefix(slot.call.id)}" for slot in at.runtime.table)
    assert ended == ["good", "good"] and at.counts["unburied"] == 1
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        "drain met its deadline: 3 parked calls that only this process can carry on are lost when it ends, "
        f"0 rounds that run are cut; lost: {calls}",
        "a cancelled handler still runs after 0.05 s; what it does has no effect on its call",
    ]
    let_go.set()
    await until(lambda: "stubborn" in ended, "the stubborn one")


async def test_a_bug_costs_the_call_that_met_it_and_leaves_nobody_waiting(at: Desk) -> None:
    """Here an outcome that can't be stored: the client hears that the call is lost, the next call is served."""

    async def unstorable(frame: Frame) -> object:
        return (await frame.ask(question("q"), "q"), object())

    asked = await at.parked(unstorable)
    reply = await asyncio.wait_for(at.retry(asked, {"q": "x"}), 5)
    assert reason(reply) is Reason.LOST and at.counts["broken"] == 1

    async def fine(frame: Frame) -> str:
        return str(await frame.ask(question("q")))

    assert await at.ended(fine) == "q"


async def test_calls_leave_no_cycles_behind(at: Desk) -> None:
    """Finished ones, raising ones and abandoned ones: the collector of a full node has nothing to find."""

    async def asking(frame: Frame) -> str:
        both = await asyncio.gather(frame.ask(question("a")), frame.ask(question("b")))
        return "".join(both) + str(await frame.ask(question("c")))

    async def raising(frame: Frame) -> str:
        raise ValueError("no")

    async def endless(frame: Frame) -> str:
        await asyncio.get_running_loop().create_future()
        return "unreachable"

    async def each_once() -> None:
        assert await at.ended(asking) == "abc"
        assert isinstance(await at.ended(raising), ValueError)
        running = asyncio.ensure_future(at.start(endless))
        await turns(3)
        running.cancel()
        await asyncio.wait([running])

    await each_once()
    await turns(10)
    with cycles() as found:
        for _ in range(100):
            await each_once()
        await turns(10)
        assert found() == []
    assert not len(at.runtime.table)
