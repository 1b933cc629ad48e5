"""Option B: an `await` that is none. The cautionary tale; the library doesn't offer it.

`ask` below raises where it has no answer yet; the wrapper makes a result of what it raised, and the client's retry
enters the handler again from its top, where `ask` returns. It reads like a suspension, but all above it runs twice: the
audit log has two lines for one call, and nothing in the handler's text says so. Option H reads the same and suspends.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import InputRequiredResult

import framehold
from weather import KEY, QUESTION, Units, audit, declined, look_up, question

mcp = MCPServer("weather")


class _Unanswered(Exception):
    """Thrown through the handler to get out of it."""


async def ask(ctx: Context) -> Units | None:
    """Looks as if it waited for the user."""
    if framehold.era(ctx) == "legacy":
        answer = await ctx.elicit(QUESTION, Units)
        return answer.data if answer.action == "accept" else None
    if framehold.input_response(ctx, KEY).kind == "missing":
        raise _Unanswered
    return framehold.accepted_content(ctx, KEY, Units)


def shimmed(fn: Callable[..., Awaitable[str]]) -> Callable[..., Awaitable[str | InputRequiredResult]]:
    """Makes a result of the exception."""

    @functools.wraps(fn)
    async def handler(*args: object, **kwargs: object) -> str | InputRequiredResult:
        try:
            return await fn(*args, **kwargs)
        except _Unanswered:
            return question()

    return handler


@mcp.tool()
@shimmed
async def weather(location: str, ctx: Context) -> str:
    """The weather of a place, in the units of your choice."""
    audit(location)  # once, one would think
    answer = await ask(ctx)
    return declined(location) if answer is None else look_up(location, answer.units)


app = framehold.asgi(mcp)
