"""A divergence is logged with the line of the author's code at which the handler went another way."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp.server.mcpserver import Context

import framehold
from tests.kit.serving import Word, said, serving

pytestmark = pytest.mark.anyio

Tool = Callable[..., Awaitable[Any]]


async def nothing() -> None:
    """An effect."""


def diverges_by(how: str) -> Tool:
    entered: list[int] = []

    async def helper() -> str:
        return said(await framehold.ask("k", f"Question {len(entered)}?", Word))  # a helper asks

    @framehold.reentrant  # ends
    async def tool(ctx: Context) -> str:
        entered.append(1)
        if how == "asks":
            return said(await ctx.elicit(f"Question {len(entered)}?", Word))  # asks
        if how == "a helper asks":
            return await helper()
        if len(entered) > 1:
            match how:
                case "acts":
                    await framehold.once("new", nothing)  # acts
                case "draws":
                    framehold.uuid4()  # draws
                case "ends":
                    return "over"
                case "raises":
                    raise KeyError("secret")
                case "waits":
                    await asyncio.sleep(1000)
        return said(await ctx.elicit("Well?", Word))

    return tool


async def diverged(how: str, caplog: pytest.LogCaptureFixture, **settings: Any) -> str:
    """The line of the log; the client is told no path."""
    async with serving(diverges_by(how), **settings) as caller:
        asked = await caller.call("tool")
        result = await caller.retry("tool", asked.token, asked.accept(word="x"))
        assert result.result["isError"] and "something else than it did before" in result.text
        assert ".py" not in result.text
    [line] = [item.message for item in caplog.records if "can't be continued here" in item.message]
    return line


@pytest.mark.parametrize("how", ["asks", "a helper asks", "acts", "draws", "ends"])
@pytest.mark.parametrize("settings", [{"rehearse": True}, {"strategy": "replay"}], ids=["rehearse", "replay"])
async def test_the_line_is_logged(how: str, settings: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """That of the question, the effect or the value; where the handler ended, that of its definition."""
    lines, first = inspect.getsourcelines(diverges_by)
    number = first + next(place for place, line in enumerate(lines) if line.endswith(f"# {how}\n"))
    assert f"tests/node/engine/test_divergence_places.py:{number}" in await diverged(how, caplog, **settings)


async def test_the_exception_that_ended_the_handler_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """By its class and its line; its text may have anything in it."""
    line = await diverged("raises", caplog, rehearse=True)
    assert "it raised KeyError at tests.node.engine.test_divergence_places:" in line and "secret" not in line


async def test_where_a_handler_waits_for_something_else(caplog: pytest.LogCaptureFixture) -> None:
    line = await diverged("waits", caplog, rehearse=True, max_round=1)
    assert "the handler waits at tests/node/engine/test_divergence_places.py:" in line
