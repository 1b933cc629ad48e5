"""A server behind HAProxy: what is asked of nodes that drain, a tool that asks three times, and one that speaks while
it runs."""

from __future__ import annotations

import asyncio

from mcp.server.mcpserver import Context
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import framehold
from tests.node.draining_server import asked, mcp
from tests.node.three_rounds import three

mcp.tool()(three)


@mcp.tool()
async def measure(text: str, ctx: Context) -> str:
    """Ask once, and tell how long the text is."""
    return f"{len(text)} {await asked(ctx, 'Which word?')}"


@mcp.tool()
async def speak(ctx: Context) -> str:
    """Say something five times a second, for three seconds."""
    for step in range(15):
        await ctx.report_progress(step, 15)
        await asyncio.sleep(0.2)
    return "said"


@mcp.custom_route("/headers", methods=["GET"])  # type: ignore[untyped-decorator]  # the SDK's has no type
async def headers(request: Request) -> Response:
    """What came with a request."""
    return JSONResponse(request.headers.items())


app = framehold.asgi(mcp)
