"""The seam: where Framehold reaches into the private parts of the MCP SDK. Everything here was read off mcp 2.3.0; a
test names it.

What is touched, and why (each is looked up with a clear error where it isn't found):

- `MCPServer._lowlevel_server`: the server whose handlers are wrapped
- `RequestStateBoundary._security`: its codec is wrapped, so that tokens carry a routing prefix; its crypto stays
- `_streamable_http_modern._mcp_param_rejection`: the header check of our own HTTP entry, so as not to restate it
- `elicitation.render_elicitation_schema`: cached per model; rendering it for each ask is a third of a round
- `OpenTelemetryMiddleware`: skipped while no tracer provider is set
- what an MCPServer keeps of its functions: by `handlers`; what of a server is used while it runs: by `attached`
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import mcp.server._streamable_http_modern as modern
from mcp.server import elicitation
from mcp.server._otel import OpenTelemetryMiddleware
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.request_state import (
    AESGCMRequestStateCodec,
    RequestStateBoundary,
    RequestStateCodec,
    RequestStateSecurity,
)
from mcp_types.methods import INPUT_REQUIRED_METHODS
from pydantic import BaseModel
from starlette.applications import Starlette

from framehold_core.errors import ConfigError

from . import operations, tracing
from .app import build
from .attached import Attached, connection_of, session_of
from .config import Settings, decided, load
from .handlers import Behind, Handlers, fastmcp_of
from .invocation import Handler
from .legacy import for_older
from .prefix import PrefixCodec
from .replies import Misdirected
from .saga import Sagas
from .seam import Seam
from .session import Ctx

logger = logging.getLogger(__name__)

TESTED = "2.3.0"
"""The SDK release that this file was read off."""

ParamRejection = Callable[..., Awaitable[Any]]
param_rejection: ParamRejection = modern._mcp_param_rejection

_attached: weakref.WeakKeyDictionary[Server[Any], Attached] = weakref.WeakKeyDictionary()


def lowlevel(server: Any) -> Server[Any]:
    """The SDK's low-level server behind whatever an author holds.

    Raises:
        TypeError: it is neither an MCPServer nor a FastMCP server nor a low-level Server.
    """
    if isinstance(server, Server):
        return server
    if isinstance(server, MCPServer):
        inner: Server[Any] = server._lowlevel_server
        return inner
    if fastmcp_of(server) is not None:
        from . import fastmcp

        return fastmcp.lowlevel(server)
    made = isinstance(server, Starlette) or isinstance(getattr(server, "attached", None), Attached)
    hint = "; give the server itself, this is an app that was made of one" if made else ""
    kind = type(server).__name__
    served = "an mcp MCPServer, a low-level Server or a FastMCP server"
    raise TypeError(f"framehold serves {served}, not {kind}; nothing was attached{hint}")


def attach(
    server: Any,
    settings: Settings | None = None,
    *,
    legacy_shim: bool | None = None,
    max_rounds: int | None = None,
    round_timeout: float | None = None,
) -> Attached:
    """Make `await ctx.elicit(...)` suspend in every tool, prompt and resource of `server`, on whatever transport.

    Handlers that are registered on a low-level server later are not covered: attach after them, or attach again. Give
    an MCPServer as it is: its low-level server knows one function for all tools, hence one promise for all of them.

    Args:
        server: an MCPServer, a low-level Server or a FastMCP server.
        settings: what to use instead of the `FRAMEHOLD_*` environment.
        legacy_shim: whether a handler that returns its questions serves clients of earlier revisions too, over their
            live session. None: FRAMEHOLD_LEGACY_SHIM (true).
        max_rounds: how often it is entered again within one of their requests. None: FRAMEHOLD_MAX_ROUNDS (8).
        round_timeout: seconds that they may take for an answer. None: FRAMEHOLD_ROUND_TIMEOUT (600).

    Raises:
        TypeError: `server` is none of these.
        ConfigError: a setting is wrong or missing.
    """
    inner = lowlevel(server)
    attached = _attached.get(inner)
    named = {"legacy_shim": legacy_shim, "max_rounds": max_rounds, "round_timeout": round_timeout}
    said = {name: value for name, value in named.items() if value is not None}
    if attached is None:
        settings = decided(settings or load(), **said)
        boundary, security = _secure(inner, settings)
        attached = Attached(inner, Handlers(server), build(settings, security.ttl), settings, boundary)
        attached.said = said
        elicitation.render_elicitation_schema = _rendered
        sagas = Sagas(inner, attached.runtime.payloads.sealer, settings.max_body, session_of)
        measured = [operations.Operations(inner, attached.names)] if operations.provided() else []
        inner.middleware[:] = [sagas, *measured, *(_only_traced(item) for item in inner.middleware)]
        if tracing.provided():
            attached.runtime.watches.add(tracing.Tracing(settings.node_id))
        _attached[inner] = attached
    elif decided(settings or attached.settings, **{**attached.said, **said}) != attached.settings:
        raise ConfigError("this server is attached already, with other settings; nothing was changed; make another one")
    attached.handlers.learn(server)
    if (outer := fastmcp_of(server)) is not None:
        from . import fastmcp

        fastmcp.wrap(outer, attached)
        return attached
    for method in sorted(INPUT_REQUIRED_METHODS):
        _wrap(inner, method, attached)
    return attached


def _wrap(server: Server[Any], method: str, attached: Attached) -> None:
    entry = server.get_request_handler(method)
    if entry is None or isinstance(entry.handler, Seam):
        return
    handler: Handler = entry.handler
    found = Behind(attached.handlers, entry.params_type)
    older = for_older(handler, method, entry.params_type, attached.boundary, attached.settings)
    seam = Seam(handler, method, attached.runtime, connection_of, found, older)
    server.add_request_handler(method, entry.params_type, seam)


def _secure(server: Server[Any], settings: Settings) -> tuple[RequestStateBoundary, RequestStateSecurity]:
    """What seals this server's request states, and its policy, with our prefix on top. Added where there is none."""
    boundary = next((item for item in server.middleware if isinstance(item, RequestStateBoundary)), None)
    if boundary is None:
        fresh = RequestStateSecurity(keys=settings.secrets()) if settings.keys else RequestStateSecurity.ephemeral()
        boundary = RequestStateBoundary(fresh, default_audience=server.name)
        server.middleware.append(boundary)
    security: RequestStateSecurity | None = getattr(boundary, "_security", None)
    if not isinstance(security, RequestStateSecurity):
        raise ConfigError(f"this release of mcp keeps its request-state policy elsewhere; use mcp {TESTED}")
    inner: RequestStateCodec = security.codec
    if settings.keys and isinstance(inner, AESGCMRequestStateCodec):
        inner = AESGCMRequestStateCodec(settings.secrets())
    # A policy may be that of several servers.
    security.codec = inner if isinstance(inner, PrefixCodec) else PrefixCodec(inner)
    if "token_ttl" in settings.model_fields_set:
        security.ttl = settings.token_ttl
    return boundary, security


_render = elicitation.render_elicitation_schema
_schemas: weakref.WeakKeyDictionary[type[BaseModel], dict[str, Any]] = weakref.WeakKeyDictionary()


def _rendered(schema: type[BaseModel]) -> dict[str, Any]:
    """The SDK's rendering of a model, made once for each model."""
    known = _schemas.get(schema)
    if known is None:
        known = _schemas[schema] = _render(schema)
    return known


def _only_traced(middleware: Any) -> Any:
    """The SDK's tracing middleware costs a span per message even where nobody collects them: skip it there."""
    if not isinstance(middleware, OpenTelemetryMiddleware):
        return middleware

    def unless_nobody_traces(ctx: Ctx, call_next: Any) -> Any:
        return traced(ctx, call_next) if tracing.provided() else call_next(ctx)

    async def traced(ctx: Ctx, call_next: Any) -> Any:
        elsewhere: Misdirected | None = None

        async def within(inner: Ctx) -> Any:
            nonlocal elsewhere
            try:
                return await call_next(inner)
            except Misdirected as error:
                elsewhere = error
                return {}

        result = await middleware(ctx, within)
        try:
            if elsewhere is not None:
                # No error of this span: the request is passed on.
                raise elsewhere
            return result
        finally:
            elsewhere = None

    unless_nobody_traces.__dict__["framehold"] = True
    return unless_nobody_traces
