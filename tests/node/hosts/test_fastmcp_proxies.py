"""A FastMCP proxy before a server of the same process: one connection for each round."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp import Context, FastMCP
from fastmcp.server import create_proxy
from mcp import Client
from mcp.types import ElicitRequestParams, ElicitResult, TextContent

import framehold
from framehold.config import Settings
from tests.node.fastmcp_stage import hosted

pytestmark = pytest.mark.anyio


def back() -> FastMCP[Any]:
    """Its tool asks twice."""
    server: FastMCP[Any] = FastMCP("back")

    @server.tool
    async def book(city: str, ctx: Context) -> str:
        """Ask for a room, then for a yes."""
        room = await ctx.elicit(f"Which room in {city}?", str)
        sure = await ctx.elicit(f"{room.data}?", bool)  # type: ignore[union-attr]
        return f"{city} {room.data} {sure.data}"  # type: ignore[union-attr]

    return server


async def answer(_: Any, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"value": True if params.message == "suite?" else "suite"})


async def booked(url: str, mode: Any) -> str:
    """What a client of that revision is told at the end."""
    async with Client(url, mode=mode, elicitation_callback=answer) as client:
        (block,) = (await client.call_tool("book", {"city": "Oslo"})).content
        assert isinstance(block, TextContent)
        return block.text


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
@pytest.mark.parametrize("reached", ["attached", "legacy"])
async def test_a_proxy_over_a_server_of_the_same_process(mode: str, reached: str) -> None:
    """Attached, its calls wait between the proxy's connections; as a client of 2025 the proxy keeps one connection."""
    behind = back()
    if reached == "attached":
        framehold.attach(behind, Settings(node_id="back"))
        front = create_proxy(behind, name="front")
    else:
        front = create_proxy(behind, name="front", mode="legacy")
    async with hosted(front) as caller:
        assert await booked(caller.url, mode) == "Oslo suite True"


async def test_a_proxy_over_a_server_that_is_not_attached_says_what_to_do() -> None:
    """FastMCP's own refusal, and both ways out."""
    async with hosted(create_proxy(back(), name="front")) as caller:
        reply = await caller.tool("book", arguments={"city": "Oslo"})
    assert "unavailable on 2026-07-28 connections" in reply.text
    assert "not attached to the server 'back'" in reply.text and 'create_proxy(server, mode="legacy")' in reply.text
