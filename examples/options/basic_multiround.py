"""A handler that returns its questions, in two rounds: the rules for closing a work item.

To close one takes a resolution. To resolve it as a duplicate takes the id of the original, too. A round brings its own
answers only, so what the first round learned rides in the state: sealed, and any node can take the second round.
"""

from __future__ import annotations

from typing import Literal

from mcp.server import MCPServer
from mcp.server.elicitation import render_elicitation_schema
from mcp.server.mcpserver import Context
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from pydantic import BaseModel, Field

import framehold

mcp = MCPServer("work items")

ITEMS: dict[int, str] = {4522: "Active"}


class Resolution(BaseModel):
    """Why an item is closed."""

    resolution: Literal["Fixed", "Won't Fix", "Duplicate", "By Design"]


class Original(BaseModel):
    """What it is a duplicate of."""

    original: int = Field(gt=0)


def asking(key: str, message: str, model: type[BaseModel], state: str | None = None) -> InputRequiredResult:
    """One question as a result, with what is known so far."""
    form = ElicitRequestFormParams(message=message, requested_schema=render_elicitation_schema(model))
    return InputRequiredResult(input_requests={key: ElicitRequest(params=form)}, request_state=state)


@mcp.tool()
async def update_work_item(item: int, state: Literal["Active", "Closed"], ctx: Context) -> str | InputRequiredResult:
    """Set the state of a work item. Asks what the rules want to know."""
    if state != "Closed":
        ITEMS[item] = state
        return f"#{item} is {state}."
    known = Resolution.model_validate_json(ctx.request_state) if ctx.request_state else None
    if known is None and framehold.input_response(ctx, "resolution").kind == "missing":
        return asking("resolution", f"Why is #{item} closed?", Resolution)
    known = known or framehold.accepted_content(ctx, "resolution", Resolution)
    if known is None:
        return f"#{item} was not closed: it takes a resolution."
    if known.resolution != "Duplicate":
        ITEMS[item] = "Closed"
        return f"#{item} is Closed: {known.resolution}."
    if framehold.input_response(ctx, "original").kind == "missing":
        return asking("original", f"Which item does #{item} duplicate?", Original, known.model_dump_json())
    original = framehold.accepted_content(ctx, "original", Original)
    if original is None:
        return f"#{item} was not closed: a duplicate takes its original."
    ITEMS[item] = "Closed"
    return f"#{item} is Closed: Duplicate of #{original.original}."


app = framehold.asgi(mcp)
