"""What a handler binds to a context variable, as the author's middleware around its rounds sees it."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

import anyio.from_thread
import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import ElicitResult

import framehold
from framehold.config import Settings
from tests.kit.effects import each_way
from tests.kit.serving import Word, said

pytestmark = pytest.mark.anyio

order: contextvars.ContextVar[str | None] = contextvars.ContextVar("order")
request: contextvars.ContextVar[int] = contextvars.ContextVar("request")


tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant")


class Audit:
    """A middleware that notes what is bound when a call leaves through it. It gives each request a number."""

    def __init__(self) -> None:
        self.seen: list[str | None] = []
        self.numbers: list[tuple[int, int]] = []

    async def __call__(self, ctx: Any, call_next: Any) -> Any:
        if ctx.method != "tools/call":
            return await call_next(ctx)
        number = len(self.seen) + len(self.numbers) + 1
        request.set(number)
        tenant.set("".join(["of request ", str(number)]))
        try:
            return await call_next(ctx)
        finally:
            self.seen.append(order.get("unbound"))
            self.numbers.append((number, request.get()))


def server_of(audit: Audit, tool: Callable[..., Any]) -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("audit")
    server._lowlevel_server.middleware.append(audit)
    server.tool(name="work", description="Bind something.")(tool)
    return server


async def _word(context: Any, params: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"word": "five"})


async def called(tool: Callable[..., Any], mode: Any, **settings: Any) -> tuple[Audit, str]:
    """One call of `tool` by a client that answers: what the middleware saw, and the result. The server is attached if
    there are settings."""
    audit = Audit()
    server = server_of(audit, tool)
    if settings:
        framehold.attach(server, Settings(**settings))
    async with Client(server, mode=mode, elicitation_callback=_word) as client:
        result = await client.call_tool("work", {})
    return audit, result.content[0].text  # type: ignore[union-attr]  # a text


@each_way
async def test_each_rounds_middleware_sees_what_was_bound_until_then(settings: dict[str, Any]) -> None:
    """However the frame waited. What each request brings along stays its own."""

    @framehold.reentrant
    async def asks(ctx: Context) -> str:
        order.set("a draft")
        word = said(await ctx.elicit("Which order?", Word))
        order.set(f"order {word}")
        return str(request.get())

    audit, result = await called(asks, "2026-07-28", node_id="audit", **settings)
    assert audit.seen == ["a draft", "order five"]
    assert [before for before, _ in audit.numbers] == [after for _, after in audit.numbers]
    assert result == str(audit.numbers[-1][0])
    assert (await called(asks, "legacy"))[0].seen == audit.seen[-1:]


@each_way
@pytest.mark.parametrize("branches", [False, True])
async def test_what_a_handler_binds_stays_though_each_request_binds_it_too(
    settings: dict[str, Any], branches: bool
) -> None:
    """Until it is reset: from then on each request's own is there."""

    async def asked(ctx: Context, message: str) -> None:
        question = ctx.elicit(message, Word)
        await (asyncio.gather(question, asyncio.sleep(0)) if branches else question)

    @framehold.reentrant
    async def asks(ctx: Context) -> str:
        token = tenant.set("archive")
        seen = []
        for number in range(2):
            await asked(ctx, f"{number}?")
            seen.append(tenant.get())
        tenant.reset(token)
        await asked(ctx, "and now?")
        return str([*seen, tenant.get(), request.get()])

    audit, result = await called(asks, "2026-07-28", node_id="audit", **settings)
    last = audit.numbers[-1][0]
    assert result == str(["archive", "archive", f"of request {last}", last])


async def test_in_a_def_tool_stays_what_the_request_bound_that_entered_it() -> None:
    """Its context is copied into its thread. What it asks its `ctx` is of the present round."""

    def asks(ctx: Context) -> str:
        before = ctx.request_id
        anyio.from_thread.run(ctx.elicit, "Which order?", Word)
        return f"{request.get()} {ctx.request_id != before}"

    audit, result = await called(asks, "2026-07-28", node_id="audit")
    assert len(audit.numbers) == 2 and result == f"{audit.numbers[0][0]} True"
