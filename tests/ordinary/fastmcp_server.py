"""The same tools on a server of FastMCP, and some that use what FastMCP has besides."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import FunctionType
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.dependencies import Depends
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_context, get_http_headers, get_http_request
from fastmcp.tools import ToolResult

import framehold
from tests.ordinary import tools
from tests.ordinary.tools import Units

_OF_THE_SDK = {"looks", "reads_its_body", "url", "fails", "marks_its_meta"}
"""Tools that use what only the SDK's context has."""


@framehold.reentrant
async def looks(ctx: Context) -> str:
    def seen() -> list[Any]:
        request, inner = get_http_request(), ctx.request_context
        assert inner is not None and get_context().fastmcp is ctx.fastmcp
        return [
            *(ctx.request_id, request.headers.get("mcp-name"), sorted(get_http_headers()), request.url.path),
            *(inner.meta, inner.protocol_version, str(inner.lifespan_context), ctx.client_id, ctx.transport),
            *(ctx.input_responses is None, ctx.request_state),
        ]

    before = seen()
    await ctx.elicit("ok?", Units)
    return json.dumps([before, seen()], sort_keys=True, default=str)


async def fails(kind: str, ctx: Context) -> str:
    if kind.endswith("late"):
        await ctx.elicit("really?", Units)
    if kind.startswith("tool"):
        raise ToolError("no such town")
    return await tools.fails(kind.removesuffix(" late"), ctx)  # type: ignore[arg-type]


async def depends(place: str = Depends(lambda: "Oslo"), ctx: Context = Depends(get_context)) -> str:  # noqa: B008
    return f"{place} {(await ctx.elicit('ok?', Units)).action}"


async def calls_another(ctx: Context) -> str:
    found = await ctx.fastmcp.call_tool("plain", {"text": "inner"})
    return f"{found.structured_content} {(await ctx.elicit('ok?', Units)).action}"


async def remembers(ctx: Context) -> ToolResult:
    await ctx.set_state("place", "Oslo")
    await ctx.elicit("ok?", Units)
    return ToolResult(str(await ctx.get_state("place")), {"k": [1, 2.5]}, {"m": 1})


def server() -> FastMCP[Any]:
    made: FastMCP[Any] = FastMCP("ördinary")
    for tool in tools.TOOLS:
        if tool.__name__ not in _OF_THE_SDK:
            made.tool(_of_fastmcp(tool), description="A tool of this test.")
    own: list[Callable[..., Any]] = [looks, fails, depends, calls_another, remembers]
    for one in own:
        made.tool(one, description="A tool of FastMCP.")
    return made


def _of_fastmcp(tool: Callable[..., Any]) -> Callable[..., Any]:
    assert isinstance(tool, FunctionType)
    made = FunctionType(tool.__code__, tool.__globals__, tool.__name__, tool.__defaults__, tool.__closure__)
    made.__dict__.update(tool.__dict__)
    context = {"ctx": Context} if "ctx" in tool.__annotations__ else {}
    made.__annotations__ = {**tool.__annotations__, **context}
    return made
