"""Option C: one handler, which asks each client as its revision can be asked."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import InputRequiredResult

import framehold
from weather import KEY, QUESTION, Units, audit, declined, look_up, question

mcp = MCPServer("weather")


@mcp.tool()
async def weather(location: str, ctx: Context) -> str | InputRequiredResult:
    """The weather of a place, in the units of your choice."""
    if framehold.era(ctx) == "legacy":
        asked = await ctx.elicit(QUESTION, Units)
        answer = asked.data if asked.action == "accept" else None
    elif framehold.input_response(ctx, KEY).kind == "missing":
        return question()
    else:
        answer = framehold.accepted_content(ctx, KEY, Units)
    if answer is None:
        return declined(location)
    audit(location)
    return look_up(location, answer.units)


app = framehold.asgi(mcp)
