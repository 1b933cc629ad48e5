"""The seam: where Framehold reaches into the private parts of the MCP SDK. Everything here was read off mcp 2.3.0; a
test names it.

What is touched, and why (each is looked up with a clear error where it isn't found):

- `MCPServer._lowlevel_server`: the server whose handlers are wrapped
- `RequestStateBoundary._security`: its codec is wrapped, so that tokens carry a routing prefix; its crypto stays
- `ServerSession._connection`: a frame needs a connection of its own, with the same outbound channel
- `ServerSession._request_outbound`: a saga's request has a session whose client can do what sagas have steps for
- `_streamable_http_modern._mcp_param_rejection`: the header check of our own HTTP entry, so as not to restate it
- `elicitation.render_elicitation_schema`: cached per model; rendering it for each ask is a third of a round
- `OpenTelemetryMiddleware`: skipped while no tracer provider is set
- `ListenHandler._bus`: its events are told to the other nodes
- what an MCPServer keeps of its functions: by `handlers`
"""

from __future__ import annotations

import copy
import logging
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import mcp.server._streamable_http_modern as modern
from mcp.server import elicitation
from mcp.server._otel import OpenTelemetryMiddleware
from mcp.server.connection import Connection
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.request_state import (
    AESGCMRequestStateCodec,
    RequestStateBoundary,
    RequestStateCodec,
    RequestStateSecurity,
)
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ClientCapabilities
from mcp_types.methods import INPUT_REQUIRED_METHODS
from opentelemetry import trace
from pydantic import BaseModel

from framehold_core.errors import ConfigError
from framehold_store.seal import Sealer

from .app import build
from .bus import FleetBus
from .config import Settings, decided, load
from .handlers import Behind, Handlers, fastmcp_of
from .invocation import Handler
from .legacy import Shim
from .notices import notices
from .prefix import PrefixCodec
from .runtime import Runtime
from .saga import Sagas
from .seam import Seam
from .session import Ctx

logger = logging.getLogger(__name__)

TESTED = "2.3.0"
"""The SDK release that this file was read off."""

ParamRejection = Callable[..., Awaitable[Any]]
param_rejection: ParamRejection = modern._mcp_param_rejection

_attached: weakref.WeakKeyDictionary[Server[Any], Attached] = weakref.WeakKeyDictionary()


class Attached:
    """A server whose handlers suspend. `lifespan_state` is what its lifespan yielded, while it runs."""

    def __init__(
        self,
        server: Server[Any],
        handlers: Handlers,
        runtime: Runtime,
        settings: Settings,
        boundary: RequestStateBoundary,
    ) -> None:
        self.server, self.handlers, self.runtime, self.settings = server, handlers, runtime, settings
        self.boundary = boundary
        """What seals and verifies this server's request states."""
        self.security: RequestStateSecurity = boundary._security
        self.said: dict[str, Any] = {}
        """What its author decided in code, whatever settings it is attached with again."""
        self.lifespan_state: Any = None
        self._users = 0
        self._bus = _joined(server, runtime, settings)
        self.lifespan = server.lifespan
        """The author's own."""
        server.lifespan = self._run

    def check(self) -> None:
        """Refuse what can't be served as it is marked. Called at each start, when the server's lifespan may have
        registered its own; whoever starts one calls it before that, to have nothing to undo.

        Raises:
            ConfigError: strategy replay would enter a handler again that isn't marked re-entrant.
        """
        chosen = self.settings.strategy
        named = self.handlers.replayed_unmarked(chosen)
        if named:
            setting = ", or leave all frames in memory with FRAMEHOLD_STRATEGY=hold" if chosen == "replay" else ""
            raise ConfigError(
                "strategy replay enters a handler again with each answer, and these are not marked re-entrant: "
                f"{', '.join(named)}; nothing was started; mark each with @framehold.reentrant if all its effects are "
                f'pure or under once, else with @framehold.hold(strategy="hold"){setting}'
            )

    @asynccontextmanager
    async def _run(self, server: Server[Any]) -> AsyncIterator[Any]:
        """The server's lifespan with the runtime inside it: opened by the first that enters, closed by the last that
        leaves."""
        async with self.lifespan(server) as state:
            self.lifespan_state = state
            if not self._users:
                self.check()
                for line in notices(self.settings, self.handlers):
                    logger.warning(line)
            self._users += 1
            try:
                if self._users == 1:
                    await self.runtime.open()
                    if self._bus is not None:
                        self._bus.open()
                yield state
            finally:
                self._users -= 1
                if self._users == 0:
                    await self.runtime.close()


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
    made = isinstance(getattr(server, "attached", None), Attached)
    hint = "; give the server itself, this is what framehold.asgi made of it" if made else ""
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
        inner.middleware[:] = [sagas, *(_only_traced(item) for item in inner.middleware)]
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


def _joined(server: Server[Any], runtime: Runtime, settings: Settings) -> FleetBus | None:
    """The server's bus, joined to those of the other nodes. A bus of the author's own is the author's."""
    entry = server.get_request_handler("subscriptions/listen")
    bus = getattr(entry.handler, "_bus", None) if entry is not None else None
    if type(bus) is not InMemorySubscriptionBus or settings.store_url is None:
        return None
    sealer = Sealer(settings.secrets(), settings.namespace)
    return FleetBus(bus, runtime.store, sealer, runtime.heartbeat.lease.boot, runtime.tasks)


def _wrap(server: Server[Any], method: str, attached: Attached) -> None:
    entry = server.get_request_handler(method)
    if entry is None or isinstance(entry.handler, Seam):
        return
    handler: Handler = entry.handler
    found = Behind(attached.handlers, entry.params_type)
    shim = Shim(handler, method, entry.params_type, attached.boundary, attached.settings)
    older = shim if attached.settings.legacy_shim else handler
    seam = Seam(handler, method, attached.runtime, connection_of, found, older)
    server.add_request_handler(method, entry.params_type, seam)


def connection_of(ctx: Ctx) -> Connection:
    """The connection that a frame begins under: an identity and a protocol version, nothing that ends with its
    round."""
    connection: Connection = ctx.session._connection
    return connection


def session_of(ctx: Ctx, has: ClientCapabilities) -> ServerSession:
    """The session of a request whose wire declares no capabilities: its client has these.

    Raises:
        MCPError: no handshake was made, on a revision that has one.
    """
    own = connection_of(ctx)
    if not own.initialize_accepted:
        # As the SDK says it.
        raise MCPError(INVALID_PARAMS, "Invalid request parameters", "")
    connection = copy.copy(own)
    connection.client_capabilities = has
    return ServerSession(ctx.session._request_outbound, connection, request_meta=ctx.meta)


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

    async def traced(ctx: Ctx, call_next: Any) -> Any:
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return await call_next(ctx)
        return await middleware(ctx, call_next)

    traced.__dict__["framehold"] = True
    return traced
