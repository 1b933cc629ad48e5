"""Option H: `await ctx.elicit(...)`, which suspends.

It reads as it did on SSE, and what stands above the question runs once, because the coroutine stays where it is. The
mark and `once` are for the death of its node: then another one enters it again. With FRAMEHOLD_STRATEGY=replay nothing
is held, and it is entered again with each answer.
"""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

import framehold
from weather import QUESTION, Units, audit, declined, look_up

mcp = MCPServer("weather")


@mcp.tool()
@framehold.reentrant
async def weather(location: str, ctx: Context) -> str:
    """The weather of a place, in the units of your choice."""
    await framehold.once("audit", audit, location)
    answer = await ctx.elicit(QUESTION, Units)
    return look_up(location, answer.data.units) if answer.action == "accept" else declined(location)


app = framehold.asgi(mcp)
