"""A restaurant that takes bookings: an ordinary MCP server whose tool asks three times, as plain awaits.

Two lines are about Framehold. `@framehold.reentrant` promises that the tool may be entered again, so another node can
continue a call when its node dies. The promise holds because the tool's only effect, the reservation, is under
`framehold.once`: it runs at most once per call, however often the tool is entered. Without the mark a call whose node
dies is lost, and its client gets an error that says so.

`framehold up` serves this server if you name no other one. Copy it to start your own: `framehold up my_server.py`.
"""

from __future__ import annotations

import logging
from typing import Annotated, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel, Field

import framehold

mcp = MCPServer("booking", version="1.0")

log = logging.getLogger("booking")
log.setLevel(logging.INFO)  # `framehold up` shows warnings only, unless a logger says otherwise

NOTHING = "Nothing was booked. Another time, perhaps."


class Party(BaseModel):
    """Who comes, and when."""

    guests: int = Field(2, ge=1, le=12, description="How many will you be?")
    evening: Literal["thursday", "friday", "saturday"] = Field("friday", description="Which evening?")


class Table(BaseModel):
    """Where to sit."""

    place: Literal["window", "garden", "bar"] = Field("window", description="Where would you like to sit?")
    candles: bool = Field(True, description="Shall we light candles?")


class Booking(BaseModel):
    """The last word."""

    name: str = Field(min_length=1, max_length=40, description="Under which name?")


async def reserve(restaurant: str, table: str, name: str) -> None:
    """The effect on the world. A real server would write to a database or send a letter; this one logs a line."""
    log.info("reserved at %s for %s: %s", restaurant, name, table)


@mcp.tool()
@framehold.reentrant
async def book(restaurant: Annotated[str, Field(examples=["Luna"])], ctx: Context) -> str:
    """Book a table for dinner. Asks the guest for the party, the table and a name, one after the other."""
    party = await ctx.elicit(f"A table at {restaurant}, with pleasure. Tell me about your party.", Party)
    if party.action != "accept":
        return NOTHING
    guests, evening = party.data.guests, party.data.evening
    people = "one" if guests == 1 else str(guests)

    table = await ctx.elicit(f"For {people} on {evening} there is a choice of tables.", Table)
    if table.action != "accept":
        return NOTHING
    seat = {"window": "by the window", "garden": "in the garden", "bar": "at the bar"}[table.data.place]
    light = "by candlelight" if table.data.candles else "without candles"

    wanted = f"a table for {people} {seat}, {light}"
    summary = f"{restaurant}, {evening} evening: {wanted}"
    booking = await ctx.elicit(f"{summary}. Shall I book it?", Booking)
    if booking.action != "accept":
        return NOTHING
    await framehold.once("reserve", reserve, restaurant, f"{evening} evening, {wanted}", booking.data.name)
    return f"Booked for {booking.data.name}. {summary}. See you there!"
