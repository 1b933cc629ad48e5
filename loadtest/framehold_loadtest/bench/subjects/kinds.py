"""The servers of section `kinds`: one handler of each kind, written twice.

Once it awaits its question, for Framehold; once it is re-entrant by hand, as cheaply as an author would write it, for
the SDK or FastMCP by itself. A tool with `Resolve` has one source for both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListToolsResult,
    TextContent,
    Tool,
)
from pydantic import AnyHttpUrl
from starlette.types import ASGIApp, Receive, Scope, Send

import framehold
from framehold.config import Settings
from framehold_loadtest.bench.subjects.weather import QUESTION, SERVER_NAME, TOOL_NAME, Units, expected_text

RESOURCE = "weather://Oslo"
SCHEMA = {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}
_UNITS = {"type": "object", "properties": {"units": {"title": "Units", "type": "string"}}, "required": ["units"]}
_ASKED = ElicitRequestFormParams(message=QUESTION, requested_schema=_UNITS)
_ISSUER = AnyHttpUrl("http://127.0.0.1:9")

Register = Callable[[MCPServer], Callable[..., Any]]
"""Gives the decorator that registers a handler."""


class Kind(NamedTuple):
    """Makes the two servers of a kind. A request is for `name` by `method`; `wrap` is put round both apps."""

    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    method: str = "tools/call"
    name: str = TOOL_NAME
    wrap: Callable[[Any], None] = lambda app: None


class _Verifier:
    async def verify_token(self, token: str) -> AccessToken:
        return AccessToken(token=token, client_id="bench", scopes=[])


class _Passing:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def _server(*, is_guarded: bool = False) -> MCPServer:
    auth = AuthSettings(issuer_url=_ISSUER, resource_server_url=_ISSUER, validate_token_resource=False)
    guard: dict[str, Any] = {"token_verifier": _Verifier(), "auth": auth} if is_guarded else {}
    return MCPServer(SERVER_NAME, log_level="ERROR", **guard)


def _told(location: str, answers: Any) -> str | InputRequiredResult:
    """What a handler by hand returns."""
    if not answers:
        return InputRequiredResult(input_requests={"units": ElicitRequest(params=_ASKED)}, request_state="asked")
    return expected_text(location, answers["units"].content["units"])


def _ours(register: Register, *, is_guarded: bool = False) -> Callable[[], MCPServer]:
    def make() -> MCPServer:
        async def weather(location: str, ctx: Context) -> str:
            answer = await ctx.elicit(QUESTION, Units)
            return expected_text(location, answer.data.units if answer.action == "accept" else "")

        made = _server(is_guarded=is_guarded)
        register(made)(weather)
        return made

    return make


def _theirs(register: Register, *, is_guarded: bool = False) -> Callable[[], MCPServer]:
    def make() -> MCPServer:
        async def weather(location: str, ctx: Context) -> str | InputRequiredResult:
            return _told(location, ctx.input_responses)

        made = _server(is_guarded=is_guarded)
        register(made)(weather)
        return made

    return make


def _sync() -> MCPServer:
    made = _server()

    @made.tool(name=TOOL_NAME)
    def weather(location: str) -> str:
        return expected_text(location, "C")

    return made


async def _ask() -> Elicit[Units]:
    return Elicit(QUESTION, Units)


def _resolving() -> MCPServer:
    made = _server()

    @made.tool(name=TOOL_NAME)
    async def weather(location: str, units: Annotated[Units, Resolve(_ask)]) -> str:
        return expected_text(location, units.units)

    return made


def _low_level(*, is_ours: bool, is_listing: bool) -> Callable[[], Server[Any]]:
    async def tools(ctx: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name=TOOL_NAME, input_schema=SCHEMA)])

    async def call(ctx: Any, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        location = str((params.arguments or {})["location"])
        if is_ours:
            answer = await ctx.session.elicit_form(QUESTION, _UNITS)
            told: str | InputRequiredResult = expected_text(location, answer.content["units"])
        else:
            told = _told(location, params.input_responses)
        return CallToolResult(content=[TextContent(type="text", text=told)]) if isinstance(told, str) else told

    schemas = {TOOL_NAME: SCHEMA}
    if is_listing:
        return lambda: Server(SERVER_NAME, on_call_tool=call, on_list_tools=tools)
    return lambda: Server(SERVER_NAME, on_call_tool=call, get_tool_input_schema=schemas.get)


def _fastmcp(*, is_ours: bool) -> Callable[[], Any]:
    def make() -> Any:
        from fastmcp import Context as FastContext
        from fastmcp import FastMCP

        async def asks(location: str, ctx: FastContext) -> str:
            answer: Any = await ctx.elicit(QUESTION, Units)
            return expected_text(location, answer.data.units)

        async def by_hand(location: str, ctx: FastContext) -> str | InputRequiredResult:
            return _told(location, ctx.input_responses)

        # Annotations are read when it is registered, and FastMCP's Context is a name of this function only.
        asks.__annotations__ = {"location": str, "ctx": FastContext, "return": str}
        by_hand.__annotations__ = {"location": str, "ctx": FastContext, "return": str | InputRequiredResult}
        made = FastMCP(SERVER_NAME)
        made.tool(asks if is_ours else by_hand, name=TOOL_NAME)
        return made

    return make


def _under_middleware(make: Callable[[], MCPServer]) -> Callable[[], MCPServer]:
    async def passing(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx)

    def made() -> MCPServer:
        server = make()
        server._lowlevel_server.middleware.append(passing)
        return server

    return made


def _tool(server: MCPServer) -> Any:
    return server.tool(name=TOOL_NAME)


def _prompt(server: MCPServer) -> Any:
    return server.prompt(name=TOOL_NAME)


def _resource(server: MCPServer) -> Any:
    return server.resource("weather://{location}")


KINDS = {
    "tool": Kind(_ours(_tool), _theirs(_tool)),
    "sync tool, no question": Kind(_sync, _sync),
    "tool behind a guard": Kind(_ours(_tool, is_guarded=True), _theirs(_tool, is_guarded=True)),
    "tool behind an ASGI middleware": Kind(_ours(_tool), _theirs(_tool), wrap=lambda app: app.add_middleware(_Passing)),
    "prompt": Kind(_ours(_prompt), _theirs(_prompt), "prompts/get"),
    "resource": Kind(_ours(_resource), _theirs(_resource), "resources/read", RESOURCE),
    "tool with Resolve": Kind(_resolving, _resolving),
    "low-level tool": Kind(_low_level(is_ours=True, is_listing=False), _low_level(is_ours=False, is_listing=False)),
    "low-level tool of a server that lists": Kind(
        _low_level(is_ours=True, is_listing=True), _low_level(is_ours=False, is_listing=True)
    ),
    "tool under a middleware of the SDK's kind": Kind(
        _under_middleware(_ours(_tool)), _under_middleware(_theirs(_tool))
    ),
    "FastMCP tool": Kind(_fastmcp(is_ours=True), _fastmcp(is_ours=False)),
}
"""By their names in the table."""


def app_of(server: Any, kind: Kind, *, is_ours: bool) -> tuple[Any, Any]:
    """The app of a server that `kind` has made, and its lifespan: Framehold's, or its own with JSON alone."""
    if is_ours:
        app: Any = framehold.asgi(server, Settings(node_id="bench"))
    elif hasattr(server, "http_app"):
        app = server.http_app(json_response=True)
    else:
        app = server.streamable_http_app(json_response=True)
    kind.wrap(app)
    return app, app.lifespan() if is_ours else app.router.lifespan_context(app)
