"""The benchmark's tool, as authors write it for each host: it asks one question, and answers with one text.

So the load checks all with one rule. None is written worse than its documentation shows it: a schema that can be a
constant is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from pydantic import BaseModel

if TYPE_CHECKING:
    from starlette.types import ASGIApp

SERVER_NAME, TOOL_NAME = "bench", "weather"
QUESTION = "Which units?"
UNITS_SCHEMA = {
    "type": "object",
    "properties": {"units": {"title": "Units", "type": "string"}},
    "required": ["units"],
}
RESTATE_SERVICE = "Weather"
_ASKED = ElicitRequestFormParams(message=QUESTION, requested_schema=UNITS_SCHEMA)
Register = Callable[[MCPServer], Callable[..., Any]]
"""Gives the decorator that registers a handler."""


class Units(BaseModel):
    """The answer that all ask for."""

    units: str


def expected_text(location: str, units: str) -> str:
    """The text of a right final result."""
    return f"{location}: 21 {units}"


def by_hand(location: str, answers: Any) -> str | InputRequiredResult:
    """What a handler returns that is written for a host which enters it again with the answer."""
    answer = (answers or {}).get("units")
    if not isinstance(answer, ElicitResult):
        return InputRequiredResult(input_requests={"units": ElicitRequest(params=_ASKED)}, request_state="asked units")
    return expected_text(location, Units.model_validate(answer.content).units)


def as_tool(server: MCPServer) -> Any:
    """Registers a handler as the tool."""
    return server.tool(name=TOOL_NAME)


def bare() -> MCPServer:
    """A server without a handler."""
    return MCPServer(SERVER_NAME, log_level="ERROR")


def awaiting(register: Register = as_tool, server: MCPServer | None = None) -> MCPServer:
    """A server whose handler awaits its question, as Framehold's authors write it."""

    async def weather(location: str, ctx: Context) -> str:
        """The weather at a location, in units of the user's choice."""
        answer = await ctx.elicit(QUESTION, Units)
        return expected_text(location, answer.data.units if answer.action == "accept" else answer.action)

    made = server or bare()
    register(made)(weather)
    return made


def returning(register: Register = as_tool, server: MCPServer | None = None) -> MCPServer:
    """A server whose handler returns its question and is entered again, as it is written for the SDK."""

    async def weather(location: str, ctx: Context) -> str | InputRequiredResult:
        """The weather at a location, in units of the user's choice."""
        return by_hand(location, ctx.input_responses)

    made = server or bare()
    register(made)(weather)
    return made


async def _ask() -> Elicit[Units]:
    return Elicit(QUESTION, Units)


def resolving() -> MCPServer:
    """A server with a tool whose parameter is resolved by asking."""
    made = bare()

    @made.tool(name=TOOL_NAME)
    async def weather(location: str, units: Annotated[Units, Resolve(_ask)]) -> str:
        """The weather at a location, in units of the user's choice."""
        return expected_text(location, units.units)

    return made


def fastmcp(*, awaits: bool) -> Any:
    """FastMCP's server with a handler that awaits its question, or that returns it.

    Raises:
        ImportError: fastmcp is not installed.
    """
    from fastmcp import Context as FastContext
    from fastmcp import FastMCP

    async def asks(location: str, ctx: FastContext) -> str:
        """The weather at a location, in units of the user's choice."""
        answer: Any = await ctx.elicit(QUESTION, Units)
        return expected_text(location, answer.data.units)

    async def returns(location: str, ctx: FastContext) -> str | InputRequiredResult:
        """The weather at a location, in units of the user's choice."""
        return by_hand(location, ctx.input_responses)

    # Annotations are read when it is registered, and FastMCP's Context is a name of this function only.
    asks.__annotations__ = {"location": str, "ctx": FastContext, "return": str}
    returns.__annotations__ = {"location": str, "ctx": FastContext, "return": str | InputRequiredResult}
    made = FastMCP(SERVER_NAME)
    made.tool(asks if awaits else returns, name=TOOL_NAME)
    return made


def restate() -> ASGIApp:
    """Restate's handler, as its guide writes a workflow that waits for a person.

    `run` parks on the promise `units`. `begin` starts it and returns what it asks; `answer` resolves that promise and
    returns the result. A client that knows the question beforehand sends `run` in place of `begin`.

    Raises:
        ImportError: restate-sdk is not installed.
    """
    import restate

    weather = restate.Workflow(RESTATE_SERVICE)

    async def run(ctx: Any, location: str) -> str:
        await ctx.promise("question").resolve(QUESTION)
        text = expected_text(location, await ctx.promise("units"))
        await ctx.promise("result").resolve(text)
        return text

    async def begin(ctx: Any, location: str) -> str:
        ctx.workflow_send(run, key=ctx.key(), arg=location)
        return str(await ctx.promise("question"))

    async def answer(ctx: Any, units: str) -> str:
        await ctx.promise("units").resolve(units)
        return str(await ctx.promise("result"))

    run = weather.main()(run)
    weather.handler()(begin)
    weather.handler()(answer)
    app: ASGIApp = restate.app([weather])
    return app
