"""Option G: named steps that ask, and an end that acts, once.

There is no place above the guard, because there is no guard: the end can't be reached before all steps have their data.
"""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import InputRequiredResult

import framehold
from weather import KEY, Units, audit, declined, look_up, question

mcp = MCPServer("weather")
weather = framehold.ToolBuilder("weather")


@weather.step
async def units(ctx: Context) -> str | InputRequiredResult | None:
    """What the user chose; None where they would not."""
    if framehold.input_response(ctx, KEY).kind == "missing":
        return question()
    answer = framehold.accepted_content(ctx, KEY, Units)
    return None if answer is None else answer.units


@weather.end
async def tell(location: str, units: str | None) -> str:
    """The weather of a place, in the units of your choice."""
    if units is None:
        return declined(location)
    audit(location)
    return look_up(location, units)


mcp.add_tool(weather.build())

app = framehold.asgi(mcp)
