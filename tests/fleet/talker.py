"""A server for fleets: tools that speak while they run, linger, and say how they ended, in a file."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

mcp = MCPServer("talker")


class Word(BaseModel):
    word: str


@mcp.tool()
async def talk(ctx: Context) -> str:
    """Speak in both rounds."""
    words = []
    for number in (1, 2):
        await ctx.report_progress(number, 2, f"step {number}")
        await ctx.log("info", f"line {number}")
        answer = await ctx.elicit(f"Which word, {number}?", Word)
        words.append(answer.data.word if answer.action == "accept" else "none")
    await ctx.report_progress(3, 3, "done")
    return " ".join(words)
