"""The smallest handler that returns its question: one round.

It makes two moves. It looks for the answer first, and returns the question where there is none. It is entered twice,
by whichever node has the retry, so it does nothing else before it has the answer.
"""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.elicitation import render_elicitation_schema
from mcp.server.mcpserver import Context
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from pydantic import BaseModel

import framehold

mcp = MCPServer("greeting")


class Name(BaseModel):
    name: str


@mcp.tool()
async def greet(ctx: Context) -> str | InputRequiredResult:
    """Greet you by your name."""
    view = framehold.input_response(ctx, "name")
    if view.kind == "missing":
        form = ElicitRequestFormParams(message="Your name?", requested_schema=render_elicitation_schema(Name))
        return InputRequiredResult(input_requests={"name": ElicitRequest(params=form)})
    answer = framehold.accepted_content(ctx, "name", Name)
    return "Hello, stranger." if answer is None else f"Hello, {answer.name}."


app = framehold.asgi(mcp)
