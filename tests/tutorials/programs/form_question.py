"""A tool that stops in its middle to ask, and takes the answer through its own front door again."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel, Field

FULL = "2027-04-03"


class OtherDay(BaseModel):
    """What the workshop needs to know when a day is full."""

    take_other: bool = Field(description="Come on another day?")
    day: str = Field(default="2027-04-05", description="Which day, as YYYY-MM-DD")


def build() -> MCPServer:
    mcp = MCPServer("Workshop")

    @mcp.tool()
    async def book_repair(day: str, bicycles: int, ctx: Context) -> str:
        if day != FULL:
            return f"{bicycles} bicycle(s) on {day}."
        answer = await ctx.elicit(message=f"The workshop is full on {day}. Another day?", schema=OtherDay)
        if answer.action == "accept" and answer.data.take_other:
            return await book_repair(answer.data.day, bicycles, ctx)
        return "Not booked."

    return mcp
