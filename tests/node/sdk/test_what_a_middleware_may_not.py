"""What an author's middleware returns or edits gets nowhere that it shouldn't: its own state names no call, whatever it
looks like, and progress is told under the token that the client sent."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

import framehold
from framehold.config import Settings
from tests.node.nodes import served
from tests.wire import EVERYTHING, Caller

pytestmark = pytest.mark.anyio

CALL = "550e8400-e29b-41d4-a716-446655440000"
FORM = {"mode": "form", "message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}


@asynccontextmanager
async def behind(middleware: Any) -> AsyncIterator[Caller]:
    server: MCPServer[Any] = MCPServer("behind", middleware=[middleware])

    @server.tool()
    async def work(ctx: Context) -> str:
        await ctx.report_progress(0.5)
        return "worked"

    async with served(framehold.asgi(server, Settings(node_id="n"))) as url, Caller(url, EVERYTHING) as client:
        yield client


@pytest.mark.parametrize("state", [f'FORM:{{"{CALL}":1}}', f'F{{"flow":"{CALL}"}}', f'F"{CALL}"', f'F[2,"{CALL}",1]'])
async def test_a_state_that_looks_like_one_of_ours_is_not_asked_with(state: str) -> None:
    async def asking(ctx: Any, call_next: Any) -> Any:
        if ctx.method != "tools/call":
            return await call_next(ctx)
        requests = {"ok": {"method": "elicitation/create", "params": FORM}}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": state}

    async with behind(asking) as client:
        assert (await client.call("work")).code == -32603


async def test_progress_keeps_the_token_that_came() -> None:
    async def editing(ctx: Any, call_next: Any) -> Any:
        ctx.params["_meta"]["progressToken"] = "another"
        return await call_next(ctx)

    async with behind(editing) as client:
        reply = await client.call("work", meta={"progressToken": "mine"})
    assert [event["params"]["progressToken"] for event in reply.events] == ["mine"]


async def test_a_session_that_is_not_the_sdks_ends_the_call_with_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """A frame can't begin with it. The client gets a response all the same, and the log names the cause."""

    async def replacing(ctx: Any, call_next: Any) -> Any:
        return await call_next(dataclasses.replace(ctx, session=SimpleNamespace()))

    async with behind(replacing) as client, asyncio.timeout(20):
        assert (await client.call("work")).code == -32603
    assert "the session of this request is a SimpleNamespace" in caplog.text
