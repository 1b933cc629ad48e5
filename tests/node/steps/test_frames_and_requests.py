"""What a runtime does with the frame of a call and with the requests that wait for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

import framehold
from framehold.engine.replies import Ended, Parked
from framehold.engine.slot import Arrival, Slot
from framehold.engine.takeover_gate import MAX_TAKEOVERS
from framehold.frame.asks import Question
from framehold.frame.frame import Frame
from framehold.sdk.present_call import Present, current
from framehold_core import effects as fx
from framehold_core.call import Phase
from framehold_core.effects import Reason
from framehold_core.errors import InDoubt, StoreUnavailable
from framehold_core.events import Evict, Start, StoreDown
from framehold_core.ids import Waiter
from framehold_core.requests import Commit, Finish, Heal, Intent, Reply, Request, Verdict
from framehold_core.value import replace
from framehold_store.base import Done
from tests.kit.effects import SOON, Effects, failure
from tests.kit.engine import Carrier, Engine, ScriptHandler, engine, question, reason, texts, turns

pytestmark = pytest.mark.anyio
Script = Callable[[Frame], Awaitable[object]]
TTL = 100.0


class Desk(Engine):
    """A runtime whose handlers may be entered again."""

    def __init__(self, made: Engine) -> None:
        super().__init__(made.runtime, made.store)
        self.performer = made.runtime._performer

    async def asks(self, script: Script, carrier: Carrier | None = None, **prefilled: Any) -> Parked:
        answer = await self.runtime.start(ScriptHandler(script, prefilled, reentrant=True), carrier or Carrier())
        assert isinstance(answer, Parked), answer
        return answer

    def answers(
        self, parked: Parked, script: Script, carrier: Carrier | None = None, answer: Any = "x", **prefilled: Any
    ) -> asyncio.Task[Any]:
        """A request that answers all questions, and may be the one whose handler is entered again."""
        handler = ScriptHandler(script, prefilled, reentrant=True)
        retry = self.runtime.retry(
            self.claims(parked), dict.fromkeys(parked.questions, answer), handler, carrier or Carrier()
        )
        return asyncio.create_task(retry)

    def slot(self, parked: Parked) -> Slot:
        slot = self.runtime.table.get(parked.call)
        assert slot is not None
        return slot

    def goes(self, parked: Parked) -> None:
        """The frame of the call is gone, as with its process."""
        self.performer.forget(self.slot(parked), fx.Forget())


@pytest.fixture
async def at() -> AsyncIterator[Desk]:
    async with engine() as made, asyncio.timeout(SOON):
        yield Desk(made)


async def two_questions(frame: Frame) -> str:
    return f"{await frame.ask(question('q'), 'q')} {await frame.ask(question('r'), 'r')}"


# How a handler ends


@pytest.mark.parametrize("raises", [True, False])
async def test_a_handler_that_does_not_end_by_its_cancellation(at: Desk, raises: bool) -> None:
    """The call keeps the end that it has. One that raises is counted, one that returns has done as it should."""
    ended = asyncio.Event()

    async def script(frame: Frame) -> str:
        await frame.ask(question("q"), "q")
        try:
            return str(await frame.ask(question("r"), "r"))
        except asyncio.CancelledError:
            ended.set()
            if raises:
                raise ValueError("in a hurry") from None
            return "late"

    parked = await at.asks(script)
    at.store.hold(Finish)
    retry = at.answers(parked, script, Carrier("r"))
    await ended.wait()
    await turns(10)
    assert at.counts["unclean"] == raises and not retry.done()
    at.store.let_go()
    assert await retry == Ended("can't be asked r") and at.counts["broken"] == 0


async def test_a_frame_that_is_dropped_is_logged_with_its_cause(at: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """One of many only for debugging."""
    caplog.set_level(logging.INFO, "framehold.engine.performer")
    for cause in ("evicted", "left"):
        at.runtime.feed(at.slot(await at.asks(two_questions)), Evict(cause))
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == ["frame of epoch 1 dropped (left)"]


# Effects


async def test_an_effect_whose_intent_the_store_has_already_is_in_doubt(at: Desk) -> None:
    """It does not run, and its handler is told."""
    effects, submit, told = Effects(), at.store.submit, list[BaseException]()

    def has_it(request: Request, done: Done) -> None:
        if type(request).__name__ == "Intent":
            done(Reply(Verdict.CONFLICT))
        else:
            submit(request, done)

    async def script(frame: Frame) -> None:
        current.set(Present(None, None, frame))  # type: ignore[arg-type]  # nothing else of it is read
        told.append(await failure(framehold.once("k", effects.note)))

    at.store.submit = has_it
    starting = asyncio.create_task(at.start(script))
    await turns(30)
    for slot in at.runtime.table:
        at.performer.drop(slot, fx.Refusal(Reason.LOST, 0, "nobody told it"))
    await starting
    assert [type(error) for error in told] == [InDoubt] and effects.ran == []


# Frames that are rebuilt


async def test_a_handler_that_is_entered_again_gets_no_answers_but_those_recorded(at: Desk) -> None:
    """Those that come with a request of its own are for a call that begins."""
    parked = await at.asks(two_questions)
    at.goes(parked)
    asked = await at.answers(parked, two_questions, r="early")
    assert isinstance(asked, Parked) and list(asked.questions) == ["r"]
    assert at.counts["entered"] == at.counts["rebuilding"] == at.counts["rebuilt"] == 1
    assert await at.answers(asked, two_questions) == Ended("x x")


async def test_a_rebuilt_frame_is_in_the_round_that_it_waits_for(at: Desk) -> None:
    """As its log lines say: a malformed answer brings it back, and no further."""
    parked = await at.asks(two_questions)
    at.goes(parked)
    with pytest.raises(ValueError, match="a text is wanted"):
        await at.answers(parked, two_questions, answer=17)
    assert at.frame(parked).round == at.slot(parked).log_fields["round"] == 1
    assert isinstance(await at.answers(parked, two_questions), Parked)


async def test_a_rebuilt_frame_whose_round_was_answered_is_in_the_next_one(at: Desk) -> None:
    """What it asks there is asked, whatever came with the request that brought it back."""
    effects, told = Effects(), asyncio.Event()

    async def script(frame: Frame) -> str:
        current.set(Present(None, None, frame))  # type: ignore[arg-type]  # nothing else of it is read
        await frame.ask(question("q"), "q")
        try:
            await framehold.once("k", effects.held)
        except InDoubt:
            told.set()
        await effects.go.wait()
        return str(await frame.ask(question("r"), "r"))

    parked = await at.asks(script)
    lost = at.answers(parked, script)
    await effects.started.wait()
    at.goes(parked)
    lost.cancel()
    retry = at.answers(parked, script, r="early")
    await told.wait()
    assert at.frame(parked).round == at.slot(parked).log_fields["round"] == 2
    effects.go.set()
    asked = await retry
    assert isinstance(asked, Parked) and list(asked.questions) == ["r"] and asked.at.round == 2
    assert await at.answers(asked, script) == Ended("x")


async def test_a_claimed_call_that_has_asked_nothing_is_not_continued(at: Desk) -> None:
    """Its record was exchanged: no handler is entered."""
    parked = await at.asks(two_questions)
    slot = at.slot(parked)
    at.performer.perform[fx.Cancel](slot, fx.Cancel("lost"))
    retry = at.answers(parked, two_questions)
    slot.call = replace(slot.call, phase=Phase.REBUILDING, asks=())
    await turns(3)
    at.performer.perform[fx.Run](slot, fx.Run(2, ()))
    refusal = await retry
    assert reason(refusal) is Reason.UNREADABLE and "it has asked nothing" in refusal.detail
    assert at.counts["rebuilding"] == 0 and slot.frame is None


async def test_calls_that_go_while_they_are_rebuilt_leave_their_places_to_others(at: Desk) -> None:
    """A node rebuilds so many at once and no more."""

    async def never(frame: Frame) -> object:
        return await asyncio.get_running_loop().create_future()

    for _ in range(MAX_TAKEOVERS):
        parked = await at.asks(two_questions)
        at.goes(parked)
        retry = at.answers(parked, never)
        await turns(10)
        assert at.slot(parked).call.phase is Phase.REBUILDING
        at.performer.drop(at.slot(parked), fx.Refusal(Reason.LOST, 1, "this node is at fault"))
        assert reason(await retry) is Reason.LOST
    parked = await at.asks(two_questions)
    at.goes(parked)
    retry = at.answers(parked, two_questions)
    await turns(50)
    assert retry.done() and isinstance(retry.result(), Parked)


# Requests


async def test_an_answer_is_parsed_once(at: Desk) -> None:
    """Its parser may say no the second time."""
    seen: list[Any] = []

    def parse(raw: Any) -> Any:
        seen.append(raw)
        return raw

    async def script(frame: Frame) -> str:
        return str(await frame.ask(Question("elicit", {"asks": "q"}, "f" * 32, parse), "q"))

    assert await at.answers(await at.asks(script), script) == Ended("x") and seen == ["x"]


async def test_a_client_is_looked_at_once_for_each_question(at: Desk) -> None:
    looked: list[str] = []

    class Looked(Carrier):
        def refusal(self, asked: Question) -> object | None:
            looked.append(asked.wire["asks"])
            return None

    parked = await at.asks(two_questions, Looked())
    assert isinstance(await at.answers(parked, two_questions, Looked()), Parked) and looked == ["q", "r"]


async def test_a_request_that_asks_for_earlier_questions_takes_no_round_from_its_carrier(at: Desk) -> None:
    """The round that runs meanwhile still knows what its client can't be asked."""
    go = asyncio.Event()

    async def script(frame: Frame) -> str:
        words = await two_questions(frame)
        await go.wait()
        return f"{words} {await frame.ask(question('s'), 's')}"

    first = await at.asks(script)
    second = await at.answers(first, script)
    running = at.answers(second, script, Carrier("s"))
    await turns(10)
    again = await at.answers(first, script)
    assert isinstance(again, Parked) and again.at.round == 2 and not running.done()
    go.set()
    assert await running == Ended("can't be asked s") and not len(at.runtime.table)


async def test_a_client_that_leaves_in_the_moment_of_its_reply_harms_nothing(at: Desk) -> None:
    """Its request is cancelled, and does not know it yet."""
    parked = await at.asks(two_questions)
    at.store.hold(Commit)
    leaving = at.answers(parked, two_questions)
    await turns(10)
    assert at.store.held
    leaving.cancel()
    at.store.let_go()
    await asyncio.wait([leaving])
    assert leaving.cancelled() and at.counts["broken"] == 0
    asked = await at.answers(parked, two_questions)
    assert isinstance(asked, Parked) and list(asked.questions) == ["r"]


@pytest.mark.parametrize(
    ("own", "age", "valid"),
    [(None, 0.0, 0.0), (90.0, 0.0, 90.0), (90.0, 1.0, 90.0), (90.0, 1.5, TTL - 2), (None, 1.5, TTL - 2)],
)
async def test_for_how_long_a_token_is_valid(at: Desk, own: float | None, age: float, valid: float) -> None:
    """As its server says (0: as for all). Questions that are sent again are valid no longer than the first time."""
    parked = await at.asks(two_questions)
    slot, arrival, waiter = at.slot(parked), Arrival(Carrier()), Waiter(1000)
    assert isinstance(slot.handler, ScriptHandler)
    slot.handler.lifetime = own
    slot.add_arrival(waiter, arrival)
    slot.call, sent = replace(slot.call, ttl=TTL), replace(parked.at, lasts=TTL - age)
    at.performer.perform[fx.Respond](slot, fx.Respond(waiter, sent))
    reply = await arrival.future
    assert isinstance(reply, Parked) and reply.lifetime == valid


# While the store is away


@pytest.mark.parametrize("reply", [StoreUnavailable("it is away"), Reply(Verdict.BEHIND)], ids=["away", "went back"])
async def test_what_is_asked_while_the_store_does_not_take_writes_is_asked_afterwards(at: Desk, reply: Any) -> None:
    later, held = asyncio.Event(), Effects()

    async def asks_beside_an_effect(frame: Frame) -> None:
        current.set(Present(None, None, frame))  # type: ignore[arg-type]  # it asks for no session
        await frame.ask(question("first"))
        effect = asyncio.ensure_future(framehold.once("k", held.held))
        await later.wait()
        await frame.ask(question("second"))
        await effect

    first = await at.asks(asks_beside_an_effect)
    at.store.hold(Intent)
    waiting = at.answers(first, asks_beside_an_effect)
    await turns(20)
    ((_, done),) = at.store.held
    del at.store.submit
    at.store.hold(Heal)
    done(reply)
    await turns(20)
    later.set()
    await turns(20)
    at.store.let_go()
    if isinstance(reply, StoreUnavailable):
        assert reason(await waiting) is Reason.UNAVAILABLE
        waiting = at.answers(first, asks_beside_an_effect)
    second = await waiting
    assert isinstance(second, Parked) and texts(second) == ["second"]
    held.go.set()


async def test_a_call_that_was_stopped_while_the_store_is_away_has_ended(at: Desk) -> None:
    first = await at.asks(two_questions)
    at.store.down = True
    stopping = at.runtime.stop(at.slot(first), "stopped")
    assert stopping is not None and isinstance(await stopping, StoreDown)
    for down in (True, False):
        at.store.down = down
        assert await at.answers(first, two_questions) == Ended("stopped")
    assert not at.counts["broken"]


async def test_a_bug_costs_the_call_that_meets_it(at: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """A node that drains does not wait for it."""
    first, other = await at.asks(two_questions), await at.asks(two_questions)
    draining = asyncio.create_task(at.runtime.drain(SOON * 2, parked=True))
    for parked in (first, other):
        await turns(20)
        assert not draining.done()
        at.runtime.feed(at.slot(parked), Start(Waiter(0)))
    await draining
    assert at.counts["broken"] == 2 and caplog.text.count("met a bug here") == 2


async def test_questions_that_are_written_late_are_those_that_were_asked(at: Desk) -> None:
    """Their handler may have given one up meanwhile, and ask another one under its key."""
    later = asyncio.Event()

    async def asks_another(frame: Frame) -> None:
        await frame.ask(question("first"))
        old = asyncio.ensure_future(frame.ask(question("old"), "k"))
        await later.wait()
        old.cancel()
        await asyncio.wait([old])
        await frame.ask(question("new"), "k")

    first = await at.asks(asks_another)
    at.store.hold(Commit)
    waiting = at.answers(first, asks_another)
    await turns(20)
    ((_, done),) = at.store.held
    del at.store.submit
    done(StoreUnavailable("it is away"))
    assert reason(await waiting) is Reason.UNAVAILABLE
    later.set()
    await turns(20)
    second = await at.answers(first, asks_another)
    assert isinstance(second, Parked) and texts(second) == ["old"]


async def test_a_reply_of_the_store_comes_too_late_for_a_call_that_is_gone(at: Desk) -> None:
    first = await at.asks(two_questions)
    at.store.hold(Commit)
    waiting = at.answers(first, two_questions)
    await turns(20)
    slot = at.slot(first)
    at.runtime.feed(slot, Start(Waiter(0)))
    assert reason(await waiting) is Reason.LOST
    at.store.let_go()
    await turns(20)
    assert at.counts["broken"] == 1 and slot.call.phase is Phase.IDLE
