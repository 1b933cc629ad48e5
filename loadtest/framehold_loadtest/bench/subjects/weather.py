"""The tool under test, written twice: re-entrant by hand for the SDK, and with an awaited question for Framehold.

Both ask one question and answer with the same text, so the load generator checks both with one rule. The hand-written
tool is as cheap as an author would make it: its schema is a constant.
"""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from pydantic import BaseModel

SERVER_NAME = "bench"
TOOL_NAME = "weather"
QUESTION = "Which units?"
_UNITS_SCHEMA = {
    "type": "object",
    "properties": {"units": {"title": "Units", "type": "string"}},
    "required": ["units"],
}


class Units(BaseModel):
    """The answer that both tools ask for."""

    units: str


def expected_text(location: str, units: str) -> str:
    """The text of a right final result."""
    return f"{location}: 21 {units}"


def reentrant_server() -> MCPServer:
    """An MCPServer whose handler returns its question and is called again with the answer."""
    server = MCPServer(SERVER_NAME, log_level="ERROR")

    @server.tool(name=TOOL_NAME)
    async def weather(location: str, ctx: Context) -> str | InputRequiredResult:
        """The weather at a location, in units of the user's choice."""
        answer = (ctx.input_responses or {}).get("units")
        if not isinstance(answer, ElicitResult):
            question = ElicitRequestFormParams(message=QUESTION, requested_schema=_UNITS_SCHEMA)
            return InputRequiredResult(
                input_requests={"units": ElicitRequest(params=question)}, request_state="asked units"
            )
        if answer.action != "accept":
            return f"{location}: no units"
        return expected_text(location, Units.model_validate(answer.content).units)

    return server


def plain_server() -> MCPServer:
    """An MCPServer whose handler awaits its question: the same tool as Framehold's authors write it."""
    server = MCPServer(SERVER_NAME, log_level="ERROR")

    @server.tool(name=TOOL_NAME)
    async def weather(location: str, ctx: Context) -> str:
        """The weather at a location, in units of the user's choice."""
        answer = await ctx.elicit(QUESTION, Units)
        if answer.action != "accept":
            return f"{location}: no units"
        return expected_text(location, answer.data.units)

    return server
