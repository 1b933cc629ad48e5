"""An author's middleware returns a state of its own, past the tag that a handler's gets: whatever it looks like, it
names no call, so no token is minted for one."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server import MCPServer

import framehold
from framehold.config import Settings
from tests.node.nodes import EVERYTHING, Caller, served

pytestmark = pytest.mark.anyio

CALL = "550e8400-e29b-41d4-a716-446655440000"
FORM = {"mode": "form", "message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}


@pytest.mark.parametrize("state", [f'FORM:{{"{CALL}":1}}', f'F{{"flow":"{CALL}"}}', f'F"{CALL}"', f'F[2,"{CALL}",1]'])
async def test_a_state_that_looks_like_one_of_ours_is_not_asked_with(state: str) -> None:
    async def asking(ctx: Any, call_next: Any) -> Any:
        if ctx.method != "tools/call":
            return await call_next(ctx)
        requests = {"ok": {"method": "elicitation/create", "params": FORM}}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": state}

    server: MCPServer[Any] = MCPServer("asking", middleware=[asking])

    @server.tool()
    async def work() -> str:
        """Work."""
        return "worked"

    async with served(framehold.asgi(server, Settings(node_id="n"))) as url, Caller(url, EVERYTHING) as client:
        heard = await client.call("work")
    assert heard.code == -32603
