"""Option A: the handler returns its question, and the library serves clients of before.

The handler is entered anew with each answer. Its author sees that: what stands below the guard runs once, because
nothing below it asks. A client of 2025 can't be given a question as a result; the library asks it over its live session
and enters the handler again, which can't tell the difference.
"""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import InputRequiredResult

import framehold
from weather import KEY, Units, audit, declined, look_up, question

mcp = MCPServer("weather")


@mcp.tool()
async def weather(location: str, ctx: Context) -> str | InputRequiredResult:
    """The weather of a place, in the units of your choice."""
    if framehold.input_response(ctx, KEY).kind == "missing":
        return question()  # the guard
    answer = framehold.accepted_content(ctx, KEY, Units)
    if answer is None:
        return declined(location)
    audit(location)
    return look_up(location, answer.units)


app = framehold.asgi(mcp)
