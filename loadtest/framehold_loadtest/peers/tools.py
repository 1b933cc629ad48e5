"""The tool under test, as authors of each peer in Python write it: one question, then the same text as `bench.tools`.

None is written worse than its documentation shows it: a schema that can be a constant is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Elicit, Resolve
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

from framehold_loadtest.bench.subjects.weather import QUESTION, SERVER_NAME, TOOL_NAME, Units, expected_text

if TYPE_CHECKING:
    from starlette.types import ASGIApp

RESTATE_SERVICE = "Weather"
_ASKED = ElicitRequestFormParams(
    message=QUESTION,
    requested_schema={"type": "object", "properties": {"units": {"type": "string"}}, "required": ["units"]},
)


async def ask_units() -> Elicit[Units]:
    """The question, as a resolver of the SDK asks it."""
    return Elicit(QUESTION, Units)


def resolve_app(json: bool) -> ASGIApp:
    """The SDK's server with a tool whose parameter is resolved by asking; with `json` it responds with JSON alone."""
    server = MCPServer(SERVER_NAME, log_level="ERROR")

    @server.tool(name=TOOL_NAME)
    async def weather(location: str, units: Annotated[Units, Resolve(ask_units)]) -> str:
        """The weather at a location, in units of the user's choice."""
        return expected_text(location, units.units)

    return server.streamable_http_app(json_response=json)


def fastmcp_app(json: bool) -> ASGIApp:
    """FastMCP's server with a handler that returns its question and is called again with the answer; with `json` it
    responds with JSON alone.

    Raises:
        ImportError: fastmcp is not installed.
    """
    from fastmcp import Context, FastMCP

    server = FastMCP(SERVER_NAME)

    async def weather(location: str, ctx: Context) -> str | InputRequiredResult:
        """The weather at a location, in units of the user's choice."""
        answer = (ctx.input_responses or {}).get("units")
        if not isinstance(answer, ElicitResult):
            return InputRequiredResult(
                input_requests={"units": ElicitRequest(params=_ASKED)}, request_state="asked units"
            )
        return expected_text(location, Units.model_validate(answer.content).units)

    # Its annotations are read when it is registered, and FastMCP's Context is a name of this function only.
    weather.__annotations__ = {"location": str, "ctx": Context, "return": str | InputRequiredResult}
    server.tool(weather, name=TOOL_NAME)
    return server.http_app(json_response=json)


def restate_app() -> ASGIApp:
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
