"""A server with one tool of three rounds, for clients of other SDKs."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel, Field

import framehold

mcp = MCPServer("trips")
entered: list[str] = []


class Place(BaseModel):
    place: str


class Stay(BaseModel):
    nights: int = Field(ge=1)


class Room(BaseModel):
    quiet: bool


@mcp.tool()
async def plan_trip(traveller: str, ctx: Context) -> str:
    """Plan a trip by asking three questions, one after the other."""
    entered.append(traveller)
    where = await ctx.elicit(f"Where to, {traveller}?", Place)
    if where.action != "accept":
        return "No trip."
    stay = await ctx.elicit(f"How many nights in {where.data.place}?", Stay)
    if stay.action != "accept":
        return "No trip."
    room = await ctx.elicit("A quiet room?", Room)
    quiet = room.action == "accept" and room.data.quiet
    plan = f"{stay.data.nights} nights in {where.data.place}, {'quiet' if quiet else 'any'} room"
    return f"{traveller}: {plan}. The tool was entered {len(entered)} time(s)."


app = framehold.asgi(mcp)
