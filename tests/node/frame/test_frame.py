"""Frames and the runtime that holds them, with handlers and clients but without SDK and HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import pytest

from framehold.engine.replies import Ended, Parked
from framehold.frame.asks import Question
from framehold.frame.frame import SETTLE, Frame
from framehold_core.effects import Reason
from framehold_core.errors import DuplicateAsk
from tests.kit.engine import Carrier, Engine, engine, question, reason, texts, turns
from tests.kit.processes import until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def at() -> AsyncIterator[Engine]:
    async with engine() as opened:
        yield opened


# Which asks leave together


async def test_nested_gathers_leave_in_one_round(at: Engine) -> None:
    """Branches need a few turns of the loop to come to their asks: the round waits for all of them."""

    async def pair(frame: Frame, *names: str) -> list[str]:
        return [*await asyncio.gather(*(frame.ask(question(name)) for name in names))]

    async def handler(frame: Frame) -> str:
        async with asyncio.TaskGroup() as group:
            single = group.create_task(frame.ask(question("e")))
            pairs = await asyncio.gather(pair(frame, "a", "b"), pair(frame, "c", "d"))
        return "".join(map("".join, pairs)) + str(single.result())

    asked = await at.parked(handler)
    assert sorted(texts(asked)) == ["a", "b", "c", "d", "e"]
    done = await at.retry(asked, {key: wire["asks"] for key, wire in asked.questions.items()})
    assert done == Ended("abcde")


def _itself(work: Coroutine[Any, Any, None]) -> Awaitable[None]:
    return work


async def _briefly() -> None:
    """What a task of a handler does, before the handler asks."""


@pytest.mark.parametrize(("how", "at_once"), [(_itself, True), (asyncio.ensure_future, False)])
async def test_a_handler_without_other_tasks_has_settled_when_it_asks(
    at: Engine, how: Callable[..., Awaitable[None]], at_once: bool
) -> None:
    """Nothing of it can come to another question. No turns are counted, however much waits for its turn on the loop."""
    counted: list[int] = []

    async def handler(frame: Frame) -> str:
        await how(_briefly())
        asking = asyncio.get_running_loop().call_soon
        asking(lambda: counted.append(frame._settling))
        return str(await frame.ask(question("one")))

    asked = await at.parked(handler)
    assert counted == [1 if at_once else SETTLE]
    assert await at.retry(asked, dict.fromkeys(asked.questions, "1")) == Ended("1")


async def test_turns_are_counted_where_tasks_are_not_seen(at: Engine) -> None:
    """An author's task factory may have taken the place of the one that sees them: a gather asks together still."""

    async def handler(frame: Frame) -> str:
        return "".join(await asyncio.gather(*(frame.ask(question(name)) for name in "ab")))

    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    loop.set_task_factory(lambda loop, coro, **options: asyncio.Task(coro, loop=loop, **options))
    try:
        asked = await at.parked(handler)
    finally:
        loop.set_task_factory(before)
    assert sorted(texts(asked)) == ["a", "b"]
    assert await at.retry(asked, {key: wire["asks"] for key, wire in asked.questions.items()}) == Ended("ab")


@pytest.mark.parametrize(("late", "together"), [(SETTLE - 2, True), (SETTLE + 3, False)])
async def test_an_ask_is_waited_for_a_few_turns_and_no_longer(at: Engine, late: int, together: bool) -> None:
    """One that comes while the round still settles leaves with it; a later one leaves with the next."""

    async def second(frame: Frame) -> Any:
        await turns(late)
        return await frame.ask(question("late"))

    async def handler(frame: Frame) -> str:
        return "+".join(await asyncio.gather(frame.ask(question("prompt")), second(frame)))

    asked = await at.parked(handler)
    assert texts(asked) == (["prompt", "late"] if together else ["prompt"])
    reply = await at.retry(asked, {key: wire["asks"] for key, wire in asked.questions.items()})
    if not together:
        assert texts(reply) == ["late"]
        reply = await at.retry(reply, dict.fromkeys(reply.questions, "late"))
    assert reply == Ended("prompt+late")


async def test_a_question_takes_the_place_of_one_that_is_given_up_in_the_same_turn(at: Engine) -> None:
    """Under the same key. What the one that was given up leaves behind is its own, so the new question is asked."""
    moved_on = asyncio.Event()

    async def handler(frame: Frame) -> str:
        first = asyncio.ensure_future(frame.ask(question("first"), "same"))
        await moved_on.wait()
        first.cancel()
        return str(await frame.ask(question("second"), "same"))

    asked = await at.parked(handler)
    moved_on.set()
    await until(lambda: [ask.question.wire["asks"] for ask in at.frame(asked).pending.values()] == ["second"], "an ask")
    await turns(SETTLE)
    assert [ask.question.wire["asks"] for ask in at.frame(asked).pending.values()] == ["second"]
    reply = await asyncio.wait_for(at.retry(asked, dict.fromkeys(asked.questions, "too late")), 5)
    assert texts(reply) == ["second"]
    assert await at.retry(reply, dict.fromkeys(reply.questions, "in time")) == Ended("in time")


# Keys


async def test_a_key_names_kind_question_and_occurrence(at: Engine) -> None:

    async def handler(frame: Frame) -> str:
        await frame.ask(question("again"))
        await asyncio.gather(frame.ask(question("again")), frame.ask(question("again", "sample")))
        return "done"

    first = await at.parked(handler)
    second = await at.retry(first, dict.fromkeys(first.questions, "x"))
    stem = question("again").fp[:8]
    assert [*first.questions] == [f"elicit-{stem}-1"]
    assert [*second.questions] == [f"elicit-{stem}-2", f"sample-{stem}-1"]


@pytest.mark.parametrize("key", [None, "mine"])
async def test_what_is_pending_under_a_key_is_not_asked_twice(at: Engine, key: str | None) -> None:
    """The second asker hears which key is taken and what to do, the first goes on."""

    async def handler(frame: Frame) -> str:
        first = asyncio.ensure_future(frame.ask(question("twin"), key))
        await asyncio.sleep(0)
        with pytest.raises(DuplicateAsk, match=r"framehold\.ask\(key, message, Model\)"):
            await frame.ask(question("twin"), key)
        return str(await first)

    assert await at.ended(handler) == "twin"


# Answers


async def test_an_answer_that_came_with_round_one_is_taken_and_journaled(at: Engine) -> None:
    """It costs no round; one of the wrong kind counts as missing; both only in round 1."""

    async def handler(frame: Frame) -> str:
        known = await frame.ask(question("known"), "known")
        odd = await frame.ask(question("odd"), "odd")
        return f"{known} {odd} {await frame.ask(question('later'), 'later')}"

    asked = await at.start(handler, {"known": "before", "odd": 12, "later": "stale"})
    assert [*asked.questions] == ["odd"]
    assert asked.at.position == 3, "the ask and its answer, then the question"
    asked = await at.retry(asked, {"odd": "now"})
    assert [*asked.questions] == ["later"]
    assert await at.retry(asked, {"later": "then"}) == Ended("before now then")


@pytest.mark.parametrize("later", [False, True])
async def test_a_client_that_cannot_be_asked_ends_the_call(at: Engine, later: bool) -> None:
    """In round 1, and in a later round for a question that was asked while nobody listened; `except` can't stop it."""
    seen: list[str] = []
    ask_on = asyncio.Event()

    async def branch(frame: Frame) -> None:
        await ask_on.wait()
        try:
            await frame.ask(question("secret"))
        except Exception:
            seen.append("swallowed")
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def handler(frame: Frame) -> str:
        await asyncio.gather(*([frame.ask(question("open"))] if later else []), branch(frame))
        return "unreachable"

    if later:
        asked = await at.parked(handler)
        ask_on.set()
        await until(lambda: len(at.frame(asked).pending) == 2, "the second ask")
        reply = await at.retry(asked, dict.fromkeys(asked.questions, "x"), Carrier("secret"))
    else:
        ask_on.set()
        reply = await at.start(handler, carrier=Carrier("secret"))
    assert reply == Ended("can't be asked secret")
    await until(lambda: seen, "the handler to be cancelled")
    assert seen == ["cancelled"]


PATIENCE = 30.0
"""Seconds in which anything here is answered."""


def _number(raw: Any) -> int:
    if not isinstance(raw, int):
        raise ValueError("a number is wanted")
    return raw


NUMBER = Question("roots", {"asks": "How many accounts?"}, "f" * 16, _number)


@pytest.mark.parametrize(("then", "answer"), [(question("Delete the account?"), "no"), (NUMBER, 3)])
async def test_an_answer_taken_earlier_never_reaches_another_question(at: Engine, then: Question, answer: Any) -> None:
    """The handler gave the question up after it was answered, and asks another under its key, of the same kind or of
    another: that one is put to the client like any new question."""
    give_up, asks_again = asyncio.Event(), asyncio.Event()

    async def wavers(frame: Frame) -> str:
        first = asyncio.ensure_future(frame.ask(question("Delete the draft?"), "confirm"))
        await give_up.wait()
        first.cancel()
        await asyncio.wait([first])
        asks_again.set()
        return f"new:{await frame.ask(then, 'confirm')}"

    async def script(frame: Frame) -> str:
        return " ".join(await asyncio.gather(wavers(frame), frame.ask(question("B"), "b")))

    first = await at.parked(script)
    second = await at.retry(first, {"confirm": "yes"})
    assert texts(second) == ["B"]
    give_up.set()
    await asks_again.wait()
    await turns(10)
    third = await at.retry(second, {"b": "b"})
    assert texts(third) == [then.wire["asks"]]
    assert await at.retry(third, {"confirm": answer}) == Ended(f"new:{answer} b")


@pytest.mark.parametrize("key", [None, "again"])
async def test_an_answered_question_can_be_asked_again_at_once(at: Engine, key: str | None) -> None:
    """Also where whoever asked it first has not resumed yet: it is answered, hence no duplicate."""

    async def swift(frame: Frame) -> str:
        await frame.ask(question("B"))
        return str(await frame.ask(question("A"), key))

    async def script(frame: Frame) -> str:
        return " ".join(await asyncio.gather(swift(frame), frame.ask(question("A"), key)))

    first = await at.parked(script)
    assert texts(first) == ["B", "A"]
    second = await at.retry(first, dict(zip(first.questions, ("b", "first"), strict=True)))
    assert isinstance(second, Parked) and texts(second) == ["A"], second
    assert await at.retry(second, dict.fromkeys(second.questions, "second")) == Ended("second first")


@pytest.mark.parametrize("lead", range(1, 9))
async def test_a_round_that_asks_nothing_is_not_parked(at: Engine, lead: int) -> None:
    """A branch asks while its call is parked and gives up at once, whatever its timing to the retry: no reply says that
    input is required without saying which."""
    go_on = asyncio.Event()

    async def brief(frame: Frame) -> None:
        await go_on.wait()
        asked = asyncio.ensure_future(frame.ask(question("brief")))
        await turns(2)
        asked.cancel()

    async def script(frame: Frame) -> str:
        branch = asyncio.ensure_future(brief(frame))
        first = await frame.ask(question("first"))
        await turns(20)
        await branch
        return f"{first} {await frame.ask(question('second'))}"

    reply: Any = await at.parked(script)
    go_on.set()
    await turns(lead)
    rounds = 0
    while isinstance(reply, Parked):
        rounds += 1
        assert reply.questions and rounds < 5, f"round {reply.at.round} asks {texts(reply)}"
        answers = {key: wire["asks"] for key, wire in reply.questions.items()}
        reply = await asyncio.wait_for(at.retry(reply, answers), PATIENCE)
    assert reply == Ended("first second")


async def test_an_answer_nested_too_deep_leaves_no_slot_behind(at: Engine) -> None:
    """Whatever is said of it: nothing is kept for a call that this node doesn't hold."""

    async def script(frame: Frame) -> object:
        return await frame.ask(question("A"))

    parked = await at.parked(script)
    assert await at.retry(parked, dict.fromkeys(parked.questions, "a")) == Ended("a")
    await until(lambda: len(at.runtime.table) == 0, "the end of the call")
    deep: Any = 1
    for _ in range(5000):
        deep = {"a": deep}
    with contextlib.suppress(Exception):
        await asyncio.wait_for(at.retry(parked, dict.fromkeys(parked.questions, deep)), PATIENCE)
    await until(lambda: len(at.runtime.table) == 0, "the end of the retry", PATIENCE)


async def test_a_round_that_is_sent_again_asks_what_it_asked(at: Engine) -> None:
    """The store was away, and meanwhile the handler stopped waiting for one of the two questions."""
    give_up = asyncio.Event()

    async def handler(frame: Frame) -> str:
        await frame.ask(question("zeroth"))
        first = asyncio.ensure_future(frame.ask(question("first")))
        second = asyncio.ensure_future(frame.ask(question("second")))
        await give_up.wait()
        first.cancel()
        return str(await second)

    asked = await at.parked(handler)
    at.store.down = True
    answers = dict.fromkeys(asked.questions, "zero")
    assert reason(await at.retry(asked, answers)) is Reason.UNAVAILABLE
    give_up.set()
    await until(lambda: len(at.frame(asked).pending) == 1, "the first to be given up")
    at.store.down = False
    reply = await at.retry(asked, answers)
    assert texts(reply) == ["first", "second"] and at.counts["broken"] == 0
    assert await at.retry(reply, {key: wire["asks"] for key, wire in reply.questions.items()}) == Ended("second")
