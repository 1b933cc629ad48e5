"""A server of one's own, as an image puts it into a node: one tool that asks once, and has one effect."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel, Field

import framehold

mcp = MCPServer("tickets")


class Seats(BaseModel):
    """How many."""

    seats: int = Field(2, ge=1, le=8, description="How many seats?")


async def reserve(film: str, seats: int) -> str:
    """What a box office would do: called once for each call, whatever becomes of its node."""
    return f"{seats} x {film}"


@mcp.tool()
@framehold.reentrant
async def tickets(film: str, ctx: Context) -> str:
    """Reserve seats for a film."""
    answer = await ctx.elicit(f"{film}: how many seats?", Seats)
    if answer.action != "accept":
        return "Nothing was reserved."
    return "Reserved: " + await framehold.once("reserve", reserve, film, answer.data.seats)
