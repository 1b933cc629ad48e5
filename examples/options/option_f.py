"""Option F: as E, with the effect under `once`.

In E the audit is safe because it stands below the guard, and nothing but its author's care keeps it there. Here it
stands above, and runs once all the same: what `once` recorded rides in the state, sealed.
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
    await framehold.once("audit", audit, location)
    if framehold.era(ctx) == "legacy":
        return look_up(location, DEFAULT)
    if framehold.input_response(ctx, KEY).kind == "missing":
        return question()
    answer = framehold.accepted_content(ctx, KEY, Units)
    return declined(location) if answer is None else look_up(location, answer.units)


app = framehold.asgi(mcp, legacy_shim=False)
