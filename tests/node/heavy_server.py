"""A re-entrant tool that keeps a mebibyte while it waits."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

import framehold

mcp: MCPServer = MCPServer("heavy")
MEBIBYTE = 1 << 20
ran: list[int] = []


class Word(BaseModel):
    word: str


def effect(number: int) -> int:
    """How often it ran for this number."""
    ran.append(number)
    return ran.count(number)


@mcp.tool()
@framehold.reentrant
async def heavy(number: int, ctx: Context) -> str:
    kept = bytearray(b"x" * MEBIBYTE)
    times = await framehold.once("effect", effect, number)
    answer = await ctx.elicit("Which word?", Word)
    word = answer.data.word if answer.action == "accept" else answer.action
    return f"{number} {word} {len(kept)} {times}"
