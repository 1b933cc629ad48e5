"""A divergence is logged with the line of the author's code at which the handler went another way."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp.server.mcpserver import Context

import framehold
from tests.node.stage import Stage, Word, said, stage

pytestmark = pytest.mark.anyio

Tool = Callable[..., Awaitable[Any]]


async def nothing() -> None:
    """An effect."""


def asks_otherwise() -> Tool:
    entered: list[int] = []

    @framehold.reentrant
    async def tool(ctx: Context) -> str:
        entered.append(1)
        return said(await ctx.elicit(f"Question {len(entered)}?", Word))  # here

    return tool


def asks_in_a_helper() -> Tool:
    entered: list[int] = []

    async def helper(ctx: Context) -> str:
        return said(await framehold.ask("k", f"Question {len(entered)}?", Word))  # here

    @framehold.reentrant
    async def tool(ctx: Context) -> str:
        entered.append(1)
        return await helper(ctx)

    return tool


def runs_an_effect() -> Tool:
    entered: list[int] = []

    @framehold.reentrant
    async def tool(ctx: Context) -> str:
        entered.append(1)
        if len(entered) > 1:
            await framehold.once("new", nothing)  # here
        return said(await ctx.elicit("Well?", Word))

    return tool


def draws_a_value() -> Tool:
    entered: list[int] = []

    @framehold.reentrant
    async def tool(ctx: Context) -> str:
        entered.append(1)
        if len(entered) > 1:
            framehold.uuid4()  # here
        return said(await ctx.elicit("Well?", Word))

    return tool


def ends_at_once() -> Tool:
    entered: list[int] = []

    @framehold.reentrant  # here
    async def tool(ctx: Context) -> str:
        entered.append(1)
        return "over" if len(entered) > 1 else said(await ctx.elicit("Well?", Word))

    return tool


def line_of(make: Callable[[], Tool]) -> int:
    lines, first = inspect.getsourcelines(make)
    return first + next(place for place, line in enumerate(lines) if line.endswith("# here\n"))


async def diverged(caller: Stage) -> None:
    asked = await caller.call("tool")
    result = await caller.retry("tool", asked.token, asked.accept(word="x"))
    assert result.result["isError"] and "something else than it did before" in result.text
    assert ".py" not in result.text, "the client is told no path"


@pytest.mark.parametrize("make", [asks_otherwise, asks_in_a_helper, runs_an_effect, draws_a_value, ends_at_once])
@pytest.mark.parametrize("settings", [{"rehearse": True}, {"strategy": "replay"}], ids=["rehearse", "replay"])
async def test_the_line_is_logged(
    make: Callable[[], Tool], settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """That of the question, the effect or the value; where the handler ended, that of its definition."""
    async with stage(make(), **settings) as caller:
        await diverged(caller)
    [line] = [item.message for item in caplog.records if "can't be continued here" in item.message]
    assert f"tests/node/engine/test_divergence_places.py:{line_of(make)}" in line


async def test_the_exception_that_ended_the_handler_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """By its class and its line; its text may have anything in it."""
    entered: list[int] = []

    @framehold.reentrant
    async def tool(ctx: Context) -> str:
        entered.append(1)
        if len(entered) > 1:
            raise KeyError("secret")
        return said(await ctx.elicit("Well?", Word))

    async with stage(tool, rehearse=True) as caller:
        await diverged(caller)
    [line] = [item.message for item in caplog.records if "can't be continued here" in item.message]
    assert "it raised KeyError at tests.node.engine.test_divergence_places:" in line and "secret" not in line


async def test_where_a_handler_waits_for_something_else(caplog: pytest.LogCaptureFixture) -> None:
    """It has not come to what is recorded, and waits."""
    entered: list[int] = []

    @framehold.reentrant
    async def tool(ctx: Context) -> str:
        entered.append(1)
        if len(entered) > 1:
            await asyncio.sleep(1000)
        return said(await ctx.elicit("Well?", Word))

    async with stage(tool, rehearse=True, max_round=1) as caller:
        await diverged(caller)
    assert "the handler waits at tests/node/engine/test_divergence_places.py:" in caplog.text
