"""Option E: the handler returns its question, and the library does nothing.

Nothing is held, so any node can take any round. A client of 2025 can't be asked; what it gets is the author's decision,
here a default. Without that branch it would get an error: with `legacy_shim=False` nobody asks for it.
"""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import InputRequiredResult

import framehold
from weather import DEFAULT, KEY, Units, audit, declined, look_up, question

mcp = MCPServer("weather")


@mcp.tool()
async def weather(location: str, ctx: Context) -> str | InputRequiredResult:
    """The weather of a place, in the units of your choice."""
    if framehold.era(ctx) == "legacy":
        answer: Units | None = Units(units=DEFAULT)
    elif framehold.input_response(ctx, KEY).kind == "missing":
        return question()
    else:
        answer = framehold.accepted_content(ctx, KEY, Units)
    if answer is None:
        return declined(location)
    audit(location)
    return look_up(location, answer.units)


app = framehold.asgi(mcp, legacy_shim=False)
