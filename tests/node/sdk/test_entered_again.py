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
from framehold.sdk import rehearsed
from tests.kit.serving import Served, Word, said, serving

pytestmark = pytest.mark.anyio

Tool = Callable[..., Awaitable[Any]]
RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


def pay(name: str) -> str:
    RAN.append(name)
    return f"receipt {uuid.uuid4()}"


async def result(caller: Served, tool: str) -> str:
    reply = await caller.call(tool)
    while reply.result.get("resultType") == "input_required":
        reply = await caller.retry(tool, reply.token, reply.accept(word="x"))
    return reply.text


def differing(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [item.message for item in caplog.records if "entered once more" in item.message]


def slip(kind: str) -> Tool:
    """A tool that does something else when it is entered again."""

    @framehold.reentrant
    async def tool(ctx: Context) -> str:
        if kind == "effect outside once":
            pay("again")
            return f"{said(await ctx.elicit('Well?', Word))} {len(RAN)}"
        word = said(await ctx.elicit("Well?", Word))
        RAN.append("x")
        if len(RAN) > 1:
            await again[kind](ctx)
        return f"{word} {uuid.uuid4()}" if kind == "chance" else word

    async def raises(ctx: Context) -> None:
        raise LookupError("again")

    again: dict[str, Callable[[Context], Awaitable[Any]]] = {
        "chance": lambda ctx: asyncio.sleep(0),
        "question": lambda ctx: ctx.elicit("And now?", Word),
        "effect": lambda ctx: framehold.once("new", pay, "new"),
        "error": raises,
        "wait": lambda ctx: asyncio.sleep(1000),
    }
    return tool


SLIPS = {
    "chance": "result.content[0].text is 'x ",
    "effect outside once": "result.content[0].text is 'x 3', and was 'x 2'",
    "question": "it asks 'And now?'",
    "effect": "it comes to once 'new'",
    "error": "result.content[0].text is 'Error executing tool tool', and was 'x'",
    "wait": "it did not end within 0.1 s",
}


@pytest.mark.parametrize("kind", SLIPS)
async def test_what_differs_is_logged(
    kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the handler's line and the likely cause. The client gets the first result."""
    if kind == "wait":
        monkeypatch.setattr(rehearsed, "PATIENCE", 0.1)
    async with serving(slip(kind), rehearse=True) as caller:
        got = await result(caller, "tool")
    assert got.startswith("x") and RAN.count("new") == 0
    [line] = differing(caplog)
    assert SLIPS[kind] in line and "test_entered_again.py:" in line and "likely it depends on" in line
    assert [item.levelno for item in caplog.records if item.message == line] == [logging.ERROR]


async def test_what_does_not_differ_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Recorded values, effects, questions in turn and together, and notifications: each is heard again, none happens
    again. A call without questions is entered once, since nobody would enter it again."""

    @framehold.reentrant
    async def tool(ctx: Context) -> str:
        number, begun = framehold.uuid4(), framehold.now()
        receipt = await framehold.once("pay", pay, "once")
        words = [said(await ctx.elicit("Again?", Word)) for _ in range(2)]
        words += map(said, await asyncio.gather(*(framehold.ask(key, f"{key}?", Word) for key in "ab")))
        await ctx.report_progress(1, 2)
        return f"{number} {begun} {receipt} {words} {framehold.random()} {framehold.uuid4()}"

    @framehold.reentrant
    async def quiet(ctx: Context) -> str:
        return pay("quiet")

    async with serving(tool, quiet, rehearse=True) as caller:
        assert "receipt" in await result(caller, "tool") and "receipt" in await result(caller, "quiet")
    assert RAN == ["once", "quiet"] and differing(caplog) == []
