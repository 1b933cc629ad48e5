"""Option D: two handlers, of which the library runs the one that the client speaks."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import InputRequiredResult

import framehold
from weather import KEY, QUESTION, Units, audit, declined, look_up, question

mcp = MCPServer("weather")


async def by_request(location: str, ctx: Context) -> str:
    """For clients of 2025: the question is a request."""
    answer = await ctx.elicit(QUESTION, Units)
    if answer.action != "accept":
        return declined(location)
    audit(location)
    return look_up(location, answer.data.units)


async def by_result(location: str, ctx: Context) -> str | InputRequiredResult:
    """The weather of a place, in the units of your choice."""
    if framehold.input_response(ctx, KEY).kind == "missing":
        return question()
    answer = framehold.accepted_content(ctx, KEY, Units)
    if answer is None:
        return declined(location)
    audit(location)
    return look_up(location, answer.units)


mcp.add_tool(framehold.by_era(legacy=by_request, modern=by_result), name="weather")

app = framehold.asgi(mcp)
