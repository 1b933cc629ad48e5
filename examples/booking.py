"""A booking tool with three questions, written as plain awaits. Run it: framehold node examples/booking.py"""

from __future__ import annotations

from typing import Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel, Field

import framehold

mcp = MCPServer("booking", version="1.0")


class Party(BaseModel):
    """Who comes, and when."""

    guests: int = Field(ge=1, le=12, description="How many are you?")
    evening: Literal["friday", "saturday"] = "friday"


class Table(BaseModel):
    """Where to sit."""

    place: Literal["window", "garden", "bar"] = "window"


class Confirm(BaseModel):
    """The last word."""

    name: str = Field(min_length=1, description="A name for the table")


@mcp.tool()
async def book(restaurant: str, ctx: Context) -> str:
    """Book a table, asking the guest what is missing."""
    party = await ctx.elicit(f"A table at {restaurant}: for how many, and when?", Party)
    if party.action != "accept":
        return "Nothing was booked."
    table = await ctx.elicit("Where would you like to sit?", Table)
    place = table.data.place if table.action == "accept" else "any place"
    guests, evening = party.data.guests, party.data.evening
    sure = await ctx.elicit(f"{guests} at the {place} on {evening}. Shall I book it?", Confirm)
    if sure.action != "accept":
        return "Nothing was booked."
    return f"Booked for {sure.data.name}: {guests} at {restaurant}, {place}, {evening}."


app = framehold.asgi(mcp)
