"""The servers of section `kinds`: one handler of each kind, written twice.

Once it awaits its question, for Framehold; once it is re-entrant by hand, as cheaply as an author would write it, for
the SDK or FastMCP by itself. A tool with `Resolve` has one source for both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.lowlevel.server import Server
from mcp_types import CallToolRequestParams, CallToolResult, InputRequiredResult, ListToolsResult, TextContent, Tool
from pydantic import AnyHttpUrl
from starlette.types import ASGIApp, Receive, Scope, Send

import framehold
from framehold.config import Settings
from framehold_loadtest.served import weather
from framehold_loadtest.served.weather import (
    QUESTION,
    SERVER_NAME,
    TOOL_NAME,
    UNITS_SCHEMA,
    as_tool,
    awaiting,
    expected_text,
    returning,
)

RESOURCE = "weather://Oslo"
SCHEMA = {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}
_ISSUER = AnyHttpUrl("http://127.0.0.1:9")
Make = Callable[[], Any]


class Kind(NamedTuple):
    """Makes the two servers of a kind. A request is for `name` by `method`; `wrap` is put round both apps."""

    ours: Make
    theirs: Make
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


def _guarded() -> MCPServer:
    auth = AuthSettings(issuer_url=_ISSUER, resource_server_url=_ISSUER, validate_token_resource=False)
    return MCPServer(SERVER_NAME, log_level="ERROR", token_verifier=_Verifier(), auth=auth)


def _sync() -> MCPServer:
    made = weather.bare()

    @made.tool(name=TOOL_NAME)
    def unasked(location: str) -> str:
        return expected_text(location, "C")

    return made


def _low_level(*, is_ours: bool, is_listing: bool) -> Server[Any]:
    async def tools(ctx: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name=TOOL_NAME, input_schema=SCHEMA)])

    async def call(ctx: Any, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        location = str((params.arguments or {})["location"])
        if is_ours:
            answer = await ctx.session.elicit_form(QUESTION, UNITS_SCHEMA)
            found: str | InputRequiredResult = expected_text(location, answer.content["units"])
        else:
            found = weather.by_hand(location, params.input_responses)
        return CallToolResult(content=[TextContent(type="text", text=found)]) if isinstance(found, str) else found

    schemas = {TOOL_NAME: SCHEMA}
    if is_listing:
        return Server(SERVER_NAME, on_call_tool=call, on_list_tools=tools)
    return Server(SERVER_NAME, on_call_tool=call, get_tool_input_schema=schemas.get)


def _under_middleware(make: Callable[[], MCPServer]) -> MCPServer:
    async def passing(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx)

    server = make()
    server._lowlevel_server.middleware.append(passing)
    return server


def _prompt(server: MCPServer) -> Any:
    return server.prompt(name=TOOL_NAME)


def _resource(server: MCPServer) -> Any:
    return server.resource("weather://{location}")


def _both(make: Callable[..., Any]) -> tuple[Make, Make]:
    return partial(make, is_ours=True), partial(make, is_ours=False)


KINDS = {
    "tool": Kind(awaiting, returning),
    "sync tool, no question": Kind(_sync, _sync),
    "tool behind a guard": Kind(lambda: awaiting(as_tool, _guarded()), lambda: returning(as_tool, _guarded())),
    "tool behind an ASGI middleware": Kind(awaiting, returning, wrap=lambda app: app.add_middleware(_Passing)),
    "prompt": Kind(lambda: awaiting(_prompt), lambda: returning(_prompt), "prompts/get"),
    "resource": Kind(lambda: awaiting(_resource), lambda: returning(_resource), "resources/read", RESOURCE),
    "tool with Resolve": Kind(weather.resolving, weather.resolving),
    "low-level tool": Kind(*_both(partial(_low_level, is_listing=False))),
    "low-level tool of a server that lists": Kind(*_both(partial(_low_level, is_listing=True))),
    "tool under a middleware of the SDK's kind": Kind(
        lambda: _under_middleware(awaiting), lambda: _under_middleware(returning)
    ),
    "FastMCP tool": Kind(lambda: weather.fastmcp(awaits=True), lambda: weather.fastmcp(awaits=False)),
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
