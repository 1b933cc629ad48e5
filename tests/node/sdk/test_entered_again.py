"""FRAMEHOLD_REHEARSE: when a call ends, its handler is entered once more with all that it has heard. What differs then
would differ on another node, and is logged."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp.server.mcpserver import Context

import framehold
from tests.node.stage import Stage, Word, said, stage

pytestmark = pytest.mark.anyio

Tool = Callable[..., Awaitable[Any]]
RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


def pay(name: str) -> str:
    RAN.append(name)
    return f"receipt {uuid.uuid4()}"


async def result(caller: Stage, tool: str) -> str:
    reply = await caller.call(tool)
    while reply.result.get("resultType") == "input_required":
        reply = await caller.retry(tool, reply.token, reply.accept(word="x"))
    return reply.text


def differing(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [item.message for item in caplog.records if "entered once more" in item.message]


def chance_in_the_result() -> Tool:
    @framehold.reentrant
    async def tool(ctx: Context) -> str:
        word = said(await ctx.elicit("Well?", Word))
        return f"{word} {uuid.uuid4()}"

    return tool


def an_effect_outside_once() -> Tool:
    @framehold.reentrant
    async def tool(ctx: Context) -> str:
        pay("again")
        return f"{said(await ctx.elicit('Well?', Word))} {len(RAN)}"

    return tool


def another_question() -> Tool:
    @framehold.reentrant
    async def tool(ctx: Context) -> str:
        word = said(await ctx.elicit("Well?", Word))
        RAN.append("x")
        if len(RAN) > 1:
            await ctx.elicit("And now?", Word)
        return word

    return tool


def another_effect() -> Tool:
    @framehold.reentrant
    async def tool(ctx: Context) -> str:
        word = said(await ctx.elicit("Well?", Word))
        RAN.append("x")
        if len(RAN) > 1:
            await framehold.once("new", pay, "new")
        return word

    return tool


def raises() -> Tool:
    @framehold.reentrant
    async def tool(ctx: Context) -> str:
        word = said(await ctx.elicit("Well?", Word))
        RAN.append("x")
        if len(RAN) > 1:
            raise LookupError("again")
        return word

    return tool


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (chance_in_the_result, "result.content[0].text is 'x "),
        (an_effect_outside_once, "result.content[0].text is 'x 3', and was 'x 2'"),
        (another_question, "it asks 'And now?'"),
        (another_effect, "it comes to once 'new'"),
        (raises, "result.content[0].text is 'Error executing tool tool', and was 'x'"),
    ],
)
async def test_what_differs_is_logged(make: Callable[[], Tool], text: str, caplog: pytest.LogCaptureFixture) -> None:
    """With the handler's line and the likely cause. The client gets the first result."""
    async with stage(make(), rehearse=True) as caller:
        got = await result(caller, "tool")
    assert got.startswith("x") and RAN.count("new") == 0
    [line] = differing(caplog)
    assert text in line and "test_entered_again.py:" in line and "likely it depends on" in line
    assert [item.levelno for item in caplog.records if item.message == line] == [logging.ERROR]


async def test_what_does_not_differ_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Recorded values, effects, questions in turn and together, and notifications: each is heard again, none happens
    again."""

    @framehold.reentrant
    async def tool(ctx: Context) -> str:
        number, begun = framehold.uuid4(), framehold.now()
        receipt = await framehold.once("pay", pay, "once")
        words = [said(await ctx.elicit("Again?", Word)) for _ in range(2)]
        words += map(said, await asyncio.gather(*(framehold.ask(key, f"{key}?", Word) for key in "ab")))
        await ctx.report_progress(1, 2)
        return f"{number} {begun} {receipt} {words} {framehold.random()} {framehold.uuid4()}"

    async with stage(tool, rehearse=True) as caller:
        assert "receipt" in await result(caller, "tool")
    assert RAN == ["once"] and differing(caplog) == []


async def test_a_call_without_questions_is_entered_once() -> None:
    """Nothing of it is recorded, so nobody would enter it again."""

    @framehold.reentrant
    async def tool(ctx: Context) -> str:
        RAN.append("entered")
        return "fine"

    async with stage(tool, rehearse=True) as caller:
        assert await result(caller, "tool") == "fine"
    assert RAN == ["entered"]


async def test_a_handler_that_waits_for_something_else(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given up after a while, and its client gets its result."""
    from framehold.sdk import rehearsed

    monkeypatch.setattr(rehearsed, "PATIENCE", 0.1)

    @framehold.reentrant
    async def tool(ctx: Context) -> str:
        word = said(await ctx.elicit("Well?", Word))
        RAN.append("x")
        if len(RAN) > 1:
            await asyncio.sleep(1000)
        return word

    async with stage(tool, rehearse=True) as caller:
        assert await result(caller, "tool") == "x"
    [line] = differing(caplog)
    assert "it did not end within 0.1 s" in line


async def test_without_the_setting_each_handler_is_entered_once() -> None:
    """The calls of a node that does not rehearse are as before."""
    async with stage(an_effect_outside_once()) as caller:
        assert await result(caller, "tool") == "x 1"


async def ends_after(turns: int) -> int:
    for _ in range(turns):
        await asyncio.sleep(0.001)
    return turns


@framehold.reentrant
async def races(ctx: Context) -> str:
    """Effects and questions side by side; the result says in which order they came."""
    heard: list[object] = []

    async def asks(key: str) -> None:
        heard.append(f"{key} {said(await framehold.ask(key, f'{key}?', Word))}")

    async def acts(turns: int) -> None:
        heard.append(await framehold.once(f"after {turns}", ends_after, turns))

    for found in asyncio.as_completed([framehold.once(str(turns), ends_after, turns) for turns in (9, 1, 5)]):
        heard.append(await found)
    await asyncio.gather(asks("one"), acts(7), asks("two"), acts(2))
    return str(heard)


async def test_what_ran_side_by_side_is_heard_in_the_same_order(caplog: pytest.LogCaptureFixture) -> None:
    async with stage(races, rehearse=True) as caller:
        text = await result(caller, "races")
    assert text.startswith("[1, 5, 9, ") and all(word in text for word in ("one x", "two x", "2", "7"))
    assert differing(caplog) == []
