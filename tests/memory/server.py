"""What is attacked: a tool of two rounds that a user calls, and tools that attackers call."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

import framehold

mcp: MCPServer[Any] = MCPServer("attacked")


class Word(BaseModel):
    word: str = ""


@mcp.tool()
@framehold.reentrant
async def marked(ctx: Context, given: Any = None) -> str:
    """Ask once, and may be entered again."""
    await ctx.elicit("Go on?", Word)
    return "done"


@mcp.tool()
async def unmarked(ctx: Context) -> str:
    """Ask once, and never be entered again."""
    await ctx.elicit("Go on?", Word)
    return "done"


@mcp.tool()
async def slow() -> str:
    """Take a while."""
    await asyncio.sleep(60)
    return "done"
