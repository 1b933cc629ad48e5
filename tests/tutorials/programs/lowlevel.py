"""The re-entrant form by hand, on the low-level server: return the question, be called again with the answer."""

from __future__ import annotations

from typing import Any

from mcp.server import Server, ServerRequestContext
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)


def _one_string(field: str) -> dict[str, Any]:
    return {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}


WHICH_FLOOR = ElicitRequest(
    params=ElicitRequestFormParams(message="On which floor?", requested_schema=_one_string("floor"))
)
ROOM = Tool(name="reserve_room", description="Reserve a room. Asks for the floor.", input_schema=_one_string("guest"))


def build() -> Server[Any]:
    """A hotel desk."""

    async def list_tools(ctx: ServerRequestContext, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[ROOM])

    async def call_tool(
        ctx: ServerRequestContext, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        answer = (params.input_responses or {}).get("floor")
        if not isinstance(answer, ElicitResult) or not answer.content:
            return InputRequiredResult(input_requests={"floor": WHICH_FLOOR}, request_state="room, round one")
        guest = (params.arguments or {})["guest"]
        text = f"{guest} on floor {answer.content['floor']}, after {params.request_state!r}."
        return CallToolResult(content=[TextContent(type="text", text=text)])

    return Server("Hotel", on_list_tools=list_tools, on_call_tool=call_tool)
