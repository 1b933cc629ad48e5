"""A tool that asks, writes log lines of its own, and raises after the answer."""

from __future__ import annotations

import logging

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

import framehold

log = logging.getLogger("my.tool")
mcp = MCPServer("failing")


class Word(BaseModel):
    word: str


@mcp.tool()
@framehold.reentrant
async def refund(order: str, ctx: Context) -> str:
    """Asks once and raises."""
    log.info("asks about an order")
    answer = await ctx.elicit("Which account?", Word)
    log.warning("goes on after the answer: %s", answer.action)
    raise LookupError("no such account")
