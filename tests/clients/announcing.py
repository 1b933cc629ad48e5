"""A server whose tools say that something changed, wherever they run."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

mcp = MCPServer("announcing")


@mcp.resource("note://{name}")
def note(name: str) -> str:
    return name


@mcp.tool()
async def tools_changed(ctx: Context) -> str:
    await ctx.notify_tools_changed()
    return "said"


@mcp.tool()
async def note_changed(name: str, ctx: Context) -> str:
    await ctx.notify_resource_updated(f"note://{name}")
    return "said"
