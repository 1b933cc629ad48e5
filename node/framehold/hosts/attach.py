"""Attaches Framehold to a server. Here Framehold uses private parts of the MCP SDK. They were read off mcp 2.3.0; a
test names that release.

The private parts, and why they are touched (a missing part gives a clear error):

- `RequestStateBoundary._security`: its codec is wrapped, so that tokens have a routing prefix; the cryptography stays
- `elicitation.render_elicitation_schema`: keeps what it rendered, where that can't change (`sdk/form_schemas.py`)
- `OpenTelemetryMiddleware`: skipped while no tracer provider is set

Other modules touch further private parts, each named in the docstring of its module: node/sdk-seams.md lists them all.
"""

from __future__ import annotations

import logging
import weakref
from typing import Any

from mcp.server._otel import OpenTelemetryMiddleware
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import (
    AESGCMRequestStateCodec,
    RequestStateBoundary,
    RequestStateCodec,
    RequestStateSecurity,
)

from framehold_core.clock import Clock
from framehold_core.errors import ConfigError
from framehold_store.system_clock import system_clock

from ..app import build
from ..code.authors import Authors
from ..code.codes import Codes
from ..config import Settings, load, with_arguments
from ..sdk import form_schemas
from ..sdk.boundary import Boundary
from ..sdk.middleware_chain import PASSES
from ..sdk.replies import Misdirected
from ..sdk.session import Ctx
from ..sdk.state_codec import PrefixCodec
from ..telemetry import tracing
from ..wires.saga import Sagas
from . import operation_metrics
from .attached import Attached
from .connections import session_of
from .handlers import Handlers
from .host_choice import host_of
from .seam_builder import SeamBuilder

logger = logging.getLogger(__name__)

TESTED = "2.3.0"
"""The SDK release that this file was read off."""

_attached: weakref.WeakKeyDictionary[Server[Any], Attached] = weakref.WeakKeyDictionary()


def attach(
    server: Any,
    settings: Settings | None = None,
    *,
    legacy_shim: bool | None = None,
    max_rounds: int | None = None,
    round_timeout: float | None = None,
) -> Attached:
    """Make `await ctx.elicit(...)` suspend in every tool, prompt and resource of `server`, on every transport.

    Handlers that are registered on a low-level server later are not covered: attach after them, or attach again. Attach
    an MCPServer itself, not its low-level server: that has one function for all tools, and so one mark for all of them.

    Args:
        server: an MCPServer, a low-level Server or a FastMCP server.
        settings: settings in code; what they do not set is read from the `FRAMEHOLD_*` environment.
        legacy_shim: whether a handler that returns its questions also serves clients of earlier revisions, over their
            live session. None: FRAMEHOLD_LEGACY_SHIM (true).
        max_rounds: how often such a handler is entered again within one request of such a client. None:
            FRAMEHOLD_MAX_ROUNDS (8).
        round_timeout: seconds within which such a client must answer. None: FRAMEHOLD_ROUND_TIMEOUT (600).

    Raises:
        TypeError: `server` is none of these.
        ConfigError: a setting is wrong or missing, or the server is attached already, with other settings.
    """
    host = host_of(server)
    inner = host.lowlevel
    attached = _attached.get(inner)
    named = {"legacy_shim": legacy_shim, "max_rounds": max_rounds, "round_timeout": round_timeout}
    in_code = {name: value for name, value in named.items() if value is not None}
    if attached is None:
        settings = with_arguments(settings or load(), **in_code)
        boundary, security, clock = _secure(inner, settings)
        handlers = Handlers(host, Codes(Authors(settings.code_modules)))
        attached = Attached(inner, handlers, build(settings, security.ttl, clock), settings, boundary)
        attached.set_in_code = in_code
        form_schemas.keep()
        sealer = attached.runtime.payloads.sealer
        sagas = [Sagas(inner, sealer, settings.max_body, session_of)] if settings.sagas else []
        measured = [operation_metrics.OperationMetrics(inner, attached.names)] if operation_metrics.provided() else []
        inner.middleware[:] = [*sagas, *measured, *(_only_traced(item) for item in inner.middleware)]
        if tracing.has_provider():
            attached.runtime.observers.add(tracing.Tracing(attached.runtime.heartbeat))
        _attached[inner] = attached
    elif with_arguments(settings or attached.settings, **{**attached.set_in_code, **in_code}) != attached.settings:
        raise ConfigError("this server is attached already, with other settings; nothing was changed; make another one")
    attached.handlers.learn(host)
    known = attached.handlers
    host.wrap(
        SeamBuilder(attached.runtime, attached.settings, attached.boundary, attached.security, known.find, known.codes)
    )
    return attached


def _secure(server: Server[Any], settings: Settings) -> tuple[RequestStateBoundary, RequestStateSecurity, Clock]:
    """The boundary that seals this server's request states; its policy, whose codec is wrapped to write the routing
    prefix; and the clock of that codec. A server without a boundary gets one. Raises ConfigError."""
    boundary = next((item for item in server.middleware if isinstance(item, RequestStateBoundary)), None)
    if boundary is None:
        fresh = RequestStateSecurity(keys=settings.secrets()) if settings.keys else RequestStateSecurity.ephemeral()
        boundary = Boundary(fresh, default_audience=server.name)
        server.middleware.append(boundary)
    elif type(boundary) is RequestStateBoundary:
        # It stays the author's own object, with the policy that he gave it.
        boundary.__class__ = Boundary
    security: RequestStateSecurity | None = getattr(boundary, "_security", None)
    if not isinstance(security, RequestStateSecurity):
        raise ConfigError(f"this release of mcp keeps its request-state policy elsewhere; use mcp {TESTED}")
    inner: RequestStateCodec = security.codec
    if settings.keys and isinstance(inner, AESGCMRequestStateCodec):
        inner = AESGCMRequestStateCodec(settings.secrets())
    # Several servers may share a policy: then its codec is wrapped already, and they share its clock.
    codec = security.codec = inner if isinstance(inner, PrefixCodec) else PrefixCodec(inner, system_clock())
    if "token_ttl" in settings.model_fields_set:
        security.ttl = settings.token_ttl
    return boundary, security, codec.clock


def _only_traced(middleware: Any) -> Any:
    """The SDK's tracing middleware makes a span for each message, even if nobody collects spans. Returns a middleware
    that skips it then; any other middleware is returned itself."""
    if not isinstance(middleware, OpenTelemetryMiddleware):
        return middleware

    def unless_nobody_traces(ctx: Ctx, call_next: Any) -> Any:
        return traced(ctx, call_next) if tracing.has_provider() else call_next(ctx)

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
                # The request is forwarded: that is not an error of this span.
                raise elsewhere
            return result
        finally:
            elsewhere = None

    unless_nobody_traces.__dict__["framehold"] = PASSES
    return unless_nobody_traces
