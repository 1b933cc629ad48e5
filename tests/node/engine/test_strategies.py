"""One handler, held, rebuilt after each round, or replayed from its token: the client can't tell, and neither can the
handler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp.server.mcpserver import Context

import framehold
from framehold_core.errors import InDoubt
from tests.node.acting import each_way, told
from tests.node.stage import Word, said, stage

pytestmark = pytest.mark.anyio

Tool = Callable[..., Awaitable[str]]


class Effects:
    """What really ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def plain(self, what: str) -> dict[str, Any]:
        self.ran.append(what)
        return {"what": what, "times": self.ran.count(what)}

    async def slow(self, what: str) -> tuple[str, int]:
        await asyncio.sleep(0)
        self.ran.append(what)
        return what, self.ran.count(what)


@each_way
async def test_questions_one_after_the_other(settings: dict[str, Any]) -> None:
    """Each answer is heard where it was asked for, and later questions know earlier answers."""

    @framehold.reentrant
    async def chain(name: str, ctx: Context) -> str:
        first = said(await ctx.elicit(f"{name} one", Word))
        second = said(await ctx.elicit(f"{first} two", Word))
        third = said(await ctx.elicit(f"{second} three", Word))
        return f"{name}: {first} {second} {third}"

    async with stage(chain, **settings) as caller:
        reply = await told(caller, "chain", name="Ada")
        assert reply.text == "Ada: <Ada one> <<Ada one> two> <<<Ada one> two> three>"
        assert len(caller.runtime.table) == 0
        assert caller.runtime.counts["rebuilt"] == (0 if not settings else 3)


@each_way
async def test_effects_run_once(settings: dict[str, Any]) -> None:
    """Sync and async effects, before, between and after questions; what they give is the same in each entry."""
    effects = Effects()

    @framehold.reentrant
    async def order(ctx: Context) -> str:
        before = await framehold.once("before", effects.plain, "before")
        first = said(await ctx.elicit("one", Word))
        between = await framehold.once("between", effects.slow, f"between {first}")
        second = said(await ctx.elicit("two", Word))
        after = await framehold.once("after", effects.slow, "after")
        again = await framehold.once("before", effects.plain, "before")
        assert again == before and again is not before
        return f"{before} {between} {second} {after}"

    async with stage(order, **settings) as caller:
        reply = await told(caller, "order")
    assert reply.text == "{'what': 'before', 'times': 1} ('between <one>', 1) <two> ('after', 1)"
    assert effects.ran == ["before", "between <one>", "after"]


@each_way
async def test_values_are_drawn_once(settings: dict[str, Any]) -> None:
    """Times and random values are those of the first time."""
    seen: list[tuple[Any, ...]] = []

    @framehold.reentrant
    async def drawn(ctx: Context) -> str:
        early = (
            framehold.now(),
            framehold.uuid4(),
            framehold.random(),
            framehold.random(),
            framehold.idempotency_key("k"),
        )
        seen.append(early)
        await ctx.elicit(f"{early}", Word)
        late = framehold.now("late"), framehold.uuid4("late"), framehold.uuid4("late")
        await ctx.elicit(f"{late}", Word)
        assert late[1] == late[2] != early[1] and early[2] != early[3]
        return "fine"

    async with stage(drawn, **settings) as caller:
        assert (await told(caller, "drawn")).text == "fine"
    entries = 1 if not settings else 4 if settings.get("rehearse") else 3
    assert len(set(seen)) == 1 and len(seen) == entries


@each_way
async def test_what_an_effect_raises_is_raised_again(settings: dict[str, Any]) -> None:
    """An exception is an outcome like any other."""
    effects = Effects()

    def fails() -> None:
        effects.ran.append("fails")
        raise LookupError("no such thing", 7)

    @framehold.reentrant
    async def brave(ctx: Context) -> str:
        reply = []
        for word in ("one", "two"):
            try:
                await framehold.once("fails", fails)
            except LookupError as error:
                reply.append(error.args)
            await ctx.elicit(word, Word)
        return str(reply)

    async with stage(brave, **settings) as caller:
        assert (await told(caller, "brave")).text == "[('no such thing', 7), ('no such thing', 7)]"
    assert effects.ran == ["fails"]


@each_way
async def test_branches_ask_and_act_together(settings: dict[str, Any]) -> None:
    """A gather of keyed questions and effects: asked in one round, each effect once."""
    effects = Effects()

    @framehold.reentrant
    async def both(ctx: Context) -> str:
        async def seat(place: str) -> str:
            await framehold.once(f"hold {place}", effects.slow, place)
            answer = said(await framehold.ask(place, "Which seat?", Word))
            return f"{place}:{answer}:{await framehold.once(f'book {place}', effects.plain, place)}"

        rows = await asyncio.gather(seat("left"), seat("right"))
        return " ".join(rows) + " " + said(await ctx.elicit("sure?", Word))

    async with stage(both, **settings) as caller:
        first = await caller.call("both")
        assert sorted(first.asked) == ["left", "right"]
        reply = await told(caller, "both")
    assert "left:<Which seat?>" in reply.text and "right:<Which seat?>" in reply.text and "<sure?>" in reply.text
    assert sorted(effects.ran) == sorted(["left", "right"] * 2 + ["left", "right"])


@each_way
async def test_partial_answers_are_kept(settings: dict[str, Any]) -> None:
    """One of two answers, then the other: the handler hears both, once both are there."""

    @framehold.reentrant
    async def pair(ctx: Context) -> str:
        one, two = await asyncio.gather(framehold.ask("a", "A?", Word), framehold.ask("b", "B?", Word))
        return f"{said(one)} {said(two)}"

    async with stage(pair, **settings) as caller:
        first = await caller.call("pair")
        second = await caller.retry("pair", first.token, {"a": {"action": "accept", "content": {"word": "x"}}})
        assert list(second.asked) == ["b"]
        again = await caller.retry("pair", second.token, {})
        assert list(again.asked) == ["b"]
        last = await caller.retry("pair", again.token, {"b": {"action": "accept", "content": {"word": "y"}}})
    assert last.text == "x y"


@each_way
async def test_a_malformed_answer_consumes_nothing(settings: dict[str, Any]) -> None:
    """It is refused by name; the right one goes on with the same token."""

    @framehold.reentrant
    async def ask(ctx: Context) -> str:
        return said(await framehold.ask("a", "A?", Word))

    async with stage(ask, **settings) as caller:
        first = await caller.call("ask")
        bad = await caller.retry("ask", first.token, {"a": {"action": 17}})
        assert bad.code == -32602 and "'a'" in bad.text
        good = await caller.retry("ask", first.token, {"a": {"action": "accept", "content": {"word": "y"}}})
    assert good.text == "y"


@each_way
async def test_another_question_than_before_is_divergence(
    settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """By name: what was recorded, what was asked, the likely cause; the client is told that nothing was answered."""
    entries: list[int] = []

    @framehold.reentrant
    async def fickle(ctx: Context) -> str:
        entries.append(1)
        said(await ctx.elicit(f"Question {len(entries)}?", Word))
        return "done"

    async with stage(fickle, **settings) as caller:
        reply = await told(caller, "fickle")
    if not settings:
        assert reply.text == "done"
        return
    assert reply.result["isError"] and "something else than it did before" in reply.text
    assert "(Question 1?)" in caplog.text and "(Question 2?)" in caplog.text and "likely it depends on" in caplog.text


async def test_in_doubt_is_an_outcome(caplog: pytest.LogCaptureFixture) -> None:
    """An effect that breaks off from within may have run: it is not run again, and every entry is told the same."""
    effects = Effects()

    async def breaks_off() -> None:
        effects.ran.append("once")
        raise asyncio.CancelledError

    @framehold.reentrant
    async def doubtful(ctx: Context) -> str:
        for word in ("one", "two"):
            try:
                await framehold.once("k", breaks_off)
            except InDoubt as error:
                said(await ctx.elicit(f"{word}: {error}"[:20], Word))
        return "fine"

    async with stage(doubtful, rehearse=True) as caller:
        assert (await told(caller, "doubtful")).text == "fine"
    assert effects.ran == ["once"]
