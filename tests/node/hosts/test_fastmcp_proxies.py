"""A FastMCP proxy before a server of the same process, with one connection for each round, and before one elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp import Context, FastMCP
from fastmcp.server import create_proxy
from mcp import Client
from mcp.server import Server
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

import framehold
from framehold.config import Settings
from tests.node.fastmcp_stage import hosted
from tests.node.nodes import served

pytestmark = pytest.mark.anyio


def back() -> FastMCP[Any]:
    server: FastMCP[Any] = FastMCP("back")

    @server.tool
    async def book(city: str, ctx: Context) -> str:
        room = await ctx.elicit(f"Which room in {city}?", str)
        sure = await ctx.elicit(f"{room.data}?", bool)  # type: ignore[union-attr]  # the user accepts
        return f"{city} {room.data} {sure.data}"  # type: ignore[union-attr]  # the user accepts

    return server


async def answer(context: Any, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"value": True if params.message == "suite?" else "suite"})


async def booked(url: str, mode: Any) -> str:
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
    async with hosted(create_proxy(back(), name="front")) as caller:
        reply = await caller.tool("book", arguments={"city": "Oslo"})
    assert "unavailable on 2026-07-28 connections" in reply.text
    assert "not attached to the server 'back'" in reply.text and 'create_proxy(server, mode="legacy")' in reply.text


VALUES: dict[str, tuple[dict[str, Any], Any]] = {
    "numbers": ({"type": "array", "items": {"type": "integer"}}, [1, 2]),
    "number": ({"type": "integer"}, 3),
    "either": ({"anyOf": [{"type": "object"}, {"type": "integer"}]}, {"a": 1}),
}
"""The schema of a tool's result, and a result; by the tool's name."""


def valued() -> Server[Any]:
    server = Server[Any]("valued")

    async def listed(_: Any, params: PaginatedRequestParams) -> ListToolsResult:
        found = VALUES.items()
        return ListToolsResult(
            tools=[Tool(name=name, input_schema={"type": "object"}, output_schema=one) for name, (one, _) in found]
        )

    async def called(_: Any, params: CallToolRequestParams) -> CallToolResult:
        value = VALUES[params.name][1]
        return CallToolResult(content=[TextContent(type="text", text=str(value))], structured_content=value)

    server.add_request_handler("tools/list", PaginatedRequestParams, listed)
    server.add_request_handler("tools/call", CallToolRequestParams, called)
    return server


async def replies(url: str, mode: Any) -> list[str]:
    found: list[str] = []
    async with Client(url, mode=mode) as client:
        for name in VALUES:
            try:
                found.append(str((await client.call_tool(name)).model_dump()))
            except Exception as error:
                found.append(repr(error))
    return found


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_result_that_is_no_object_is_the_same_as_with_fastmcp_alone(mode: str) -> None:
    """As it is, or wrapped for a client of 2025. FastMCP 4.1 refuses most of them."""
    async with served(valued().streamable_http_app(streamable_http_path="/mcp")) as behind:
        front = [create_proxy(behind, name="front", mode="2026-07-28") for _ in range(2)]
        async with served(front[0].http_app(path="/mcp")) as alone, hosted(front[1]) as caller:
            assert await replies(caller.url, mode) == await replies(alone, mode)
