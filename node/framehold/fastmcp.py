"""FastMCP 4 servers: the seam stands innermost in FastMCP's own chain, where the component would run.

So each round passes through all that an author put before it: FastMCP's middleware sees a round that asks as FastMCP
has it see one (an `InputRequiredToolResult`), authorization is decided anew each time, and none of it waits. What runs
in a frame is what comes after: the component, its dependencies, and a mounted server with its own middleware. Who
guards one of those (`AuthMiddleware`) is asked each round all the same. A call belongs to the version that it asked
for. What middleware calls by itself is no round of its client's, and can't ask.

FastMCP keeps the present request in context variables. In a frame they hold what reads through to the present round;
rounds don't set them. What a dependency was given as a value (`CurrentHeaders()`) is that of the round which entered
the handler: call `get_http_headers()` where the present one is meant. `ctx.set_state` lasts as long as the frame.

What can't work: `ctx.sample` and `ctx.list_roots`, which FastMCP 4 no longer has (`ctx.session.create_message` and
`ctx.session.list_roots` suspend); questions from background tasks, which FastMCP refuses, and from tools that are
called by the hashed names of apps. A tool's `timeout` runs while its user thinks, as on earlier revisions.

Private parts of FastMCP that are touched, each with a clear error where it isn't found; a test names the release:

- `FastMCP._mcp_server`: the SDK's server, which holds the boundary and the lifespan
- `FastMCP._dispatch_component_middleware`: where the chain is run; ours stands before it, on the served server alone
- `Context._is_modern_protocol`: what makes `Context.elicit` refuse; it is asked of a copy that says no
- `fastmcp_request_ctx`, its `_srctx`, and `_current_context`: the present request
"""

from __future__ import annotations

import contextvars
import copy
import functools
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import fastmcp
from fastmcp import FastMCP
from fastmcp.server import context as contexts
from fastmcp.server.context import Context
from fastmcp.server.dependencies import FastMCPRequestContext, extract_version_spec, fastmcp_request_ctx
from fastmcp.utilities.async_utils import is_coroutine_function
from fastmcp.utilities.versions import VersionSpec
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import compact_json
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel
from starlette.applications import Starlette

from framehold_core.errors import ConfigError

from . import variables
from .attached import Attached, connection_of
from .config import Settings
from .fastmcp_components import Passed, author_of, authorized, found, schema_of, understood
from .fastmcp_results import KINDS, Kind, raised
from .legacy import for_older
from .marks import Marks, marks_of
from .replies import Unavailable
from .seam import Seam
from .session import Ctx, FrameSession

TESTED = "4.1.2"
"""The release that this file, `fastmcp_components` and `fastmcp_results` were read off."""

_serves: contextvars.ContextVar[FastMCPRequestContext | None] = contextvars.ContextVar(
    f"{variables.OWN}serves", default=None
)
"""The request whose own call is made here. What an author's middleware calls meanwhile is not that call."""

Next = Callable[[Any], Awaitable[Any]]
Chain = Callable[[Any, Next], Awaitable[Any]]


def lowlevel(server: FastMCP[Any]) -> Server[Any]:
    """The SDK's server behind a FastMCP server, whose contexts may ask from now on."""
    inner = getattr(server, "_mcp_server", None)
    if not isinstance(inner, Server):
        raise _moved("the SDK's server")
    _let_contexts_ask()
    return inner


def wrap(server: FastMCP[Any], attached: Attached) -> None:
    """Put the seam into the chain of `server`, once.

    Raises:
        ConfigError: it is of a release that this file doesn't fit, or others could not open its tokens.
    """
    chain = getattr(server, "_dispatch_component_middleware", None)
    if isinstance(chain, Rounds):
        return
    if not callable(chain):
        raise _moved("its middleware chain")
    if attached.settings.keys and re.fullmatch(rf"{type(server).__name__}-[0-9a-f]{{4}}", server.name):
        raise ConfigError(
            f"this FastMCP server has no name, so each process makes one up ({server.name}), and no other could open "
            'its tokens, in spite of FRAMEHOLD_KEYS; nothing was started; write FastMCP("name")'
        )
    server._dispatch_component_middleware = Rounds(server, chain, attached)  # type: ignore[method-assign]
    if not isinstance(attached.security.bind_principal, Bindings):
        attached.security.bind_principal = Bindings(attached.security.bind_principal)
    if attached.server.get_tool_input_schema is None and understood(server):
        # Without it the SDK lists all tools before each call that has arguments, to check headers against its schema.
        attached.server.get_tool_input_schema = functools.partial(_schema, server, attached.server)


def _schema(server: FastMCP[Any], inner: Server[Any], name: str) -> dict[str, Any] | None:
    """The input schema of a tool. Once there is something that `schema_of` can't look into, the SDK lists again."""
    if understood(server):
        return schema_of(server, name)
    inner.get_tool_input_schema = None
    return None


def http_app(
    server: FastMCP[Any], settings: Settings, path: str, usual: TransportSecuritySettings
) -> tuple[Starlette, TransportSecuritySettings]:
    """FastMCP's own app, and what is left for our entry to check. Hosts and origins are FastMCP's: its guard stands
    before our entry too, and where nobody said otherwise it protects servers on loopback addresses. `usual` is what
    pages may read then."""
    hosts, origins = list(settings.allowed_hosts), list(settings.allowed_origins)
    guard: dict[str, Any] = {}
    if "http_host_origin_protection" not in fastmcp.settings.model_fields_set:
        guard = {"host_origin_protection": "auto"}
    if hosts or origins:
        guard = {"host_origin_protection": True, "allowed_hosts": hosts, "allowed_origins": origins}
    unchecked = TransportSecuritySettings(
        enable_dns_rebinding_protection=False, allowed_origins=origins or usual.allowed_origins
    )
    return server.http_app(path=path, **guard), unchecked


class Rounds:
    """The chain of a server: what it calls in the end, for a round of a client's, is the seam."""

    def __init__(self, server: FastMCP[Any], chain: Chain, attached: Attached) -> None:
        self._server, self._chain, self._attached = server, chain, attached

    async def __call__(self, context: Any, call_next: Next) -> Any:
        present, kind = fastmcp_request_ctx.get(), KINDS.get(context.method)
        within_another = isinstance(present, Bound) or _serves.get() is present
        if kind is None or present is None or within_another or _suspends(present):
            # A listing, a call from the author's own code, or one that a call's middleware or handler makes.
            return await self._chain(context, call_next)
        told: Unavailable | None = None

        async def within(inner: Any) -> Any:
            nonlocal told
            told = None
            try:
                return await self._round(present._srctx, kind, inner, call_next)
            except Unavailable as error:
                told = error
                raise

        serves = _serves.set(present)
        try:
            result = await self._chain(context, within)
        except Exception:
            if told is None:
                raise
        finally:
            _serves.reset(serves)
        if told is not None:
            # Whatever an author's middleware made of it: this request is answered elsewhere, or later.
            raise told
        return result

    async def _round(self, ctx: Ctx, kind: Kind, context: Any, call_next: Next) -> Any:
        name, attached = str(getattr(context.message, kind.field)), self._attached
        version = extract_version_spec(_meta(ctx))
        spec = VersionSpec(eq=version) if version else None
        passed: list[Passed] = []
        component = await found(self._server, context.method, name, spec, passed)
        if component is None:
            # FastMCP says so itself; to a round whose user may no longer use it, too.
            return await call_next(context)
        if (ctx.params or {}).get("requestState") is not None:
            await authorized(context, kind.field, passed)

        async def entered(inner: Ctx, _: Any) -> Any:
            bound = fastmcp_request_ctx.set(Bound(inner))
            try:
                return await kind.keep(call_next(context), name)
            finally:
                fastmcp_request_ctx.reset(bound)

        fn, params_type = author_of(component), type(context.message)
        behind = Behind(params_type, marks_of(fn) if fn is not None else Marks(), is_coroutine_function(fn))
        older = for_older(entered, context.method, params_type, attached.boundary, attached.settings)
        seam = Seam(entered, context.method, attached.runtime, connection_of, behind, older)
        try:
            return kind.give(await seam(ctx, context.message))
        except MCPError as error:
            told = raised(error)
        try:
            # Raised up there, it would have what it caused for its context: a cycle, as is a frame that holds it.
            raise told
        finally:
            del told


class Bindings:
    """Who a request state belongs to: its user, and the version of the component that it asked for, if any."""

    def __init__(self, user_of: Callable[[Ctx], str | None] | None) -> None:
        self._user_of = user_of

    def __call__(self, ctx: Ctx) -> str | None:
        user = None if self._user_of is None else self._user_of(ctx)
        version = extract_version_spec(_meta(ctx))
        return user if version is None else compact_json([user, version])


class Behind(NamedTuple):
    """What is known of one component (`invocation.Behind`)."""

    params_type: type[BaseModel]
    known: Marks
    may_ask: bool

    def marks(self, method: str, params: Mapping[str, Any]) -> Marks:
        """What is promised of its function."""
        return self.known

    def asks(self, method: str, params: Mapping[str, Any]) -> bool:
        """Whether its function may ask."""
        return self.may_ask


def _read(read: Callable[[Any], Any]) -> Any:
    return property(read)


class Bound(FastMCPRequestContext):
    """The present request as FastMCP keeps it, for a handler that outlives requests."""

    def __init__(self, ctx: Ctx) -> None:
        self._srctx = ctx

    session = _read(lambda self: self._srctx.session)
    request_id = _read(lambda self: None if self._srctx.request_id is None else str(self._srctx.request_id))
    meta = _read(lambda self: _meta(self._srctx))
    request = _read(lambda self: self._srctx.request)
    protocol_version = _read(lambda self: self._srctx.protocol_version)
    close_sse_stream = _read(lambda self: self._srctx.close_sse_stream)
    lifespan_context = _read(lambda self: self._srctx.lifespan_context)


def _meta(ctx: Ctx) -> dict[str, Any] | None:
    """The `_meta` of the present round as it came."""
    live = ctx.session.live() if isinstance(ctx.session, FrameSession) else None
    meta = ((ctx if live is None else live).params or {}).get("_meta")
    return dict(meta) if isinstance(meta, Mapping) else None


def _suspends(present: FastMCPRequestContext) -> bool:
    """Whether what runs for this request runs in a frame."""
    return isinstance(present.session, FrameSession)


_elicit = Context.elicit


@functools.wraps(_elicit)
async def _suspending(self: Context, *args: Any, **kwargs: Any) -> Any:
    present = self.request_context
    if present is not None and _suspends(present):
        self = copy.copy(self)
        self.__dict__["_is_modern_protocol"] = lambda: False
    return await _elicit(self, *args, **kwargs)


def _let_contexts_ask() -> None:
    """Make `Context.elicit` reach the session where that is ours. Elsewhere it is as it was."""
    current = getattr(contexts, "_current_context", None)
    if current is None or not callable(getattr(Context, "_is_modern_protocol", None)):
        raise _moved("its refusal to elicit")
    variables.keep(fastmcp_request_ctx, current)
    Context.elicit = _suspending  # type: ignore[method-assign]


def _moved(what: str) -> ConfigError:
    return ConfigError(f"this release of fastmcp keeps {what} elsewhere; nothing was attached; use fastmcp 4.1")
