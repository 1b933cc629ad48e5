"""FastMCP 4 servers: the seam stands innermost in FastMCP's own middleware chain, where the component would run.

So each round passes through all middleware of the author. That middleware gets a round that asks in FastMCP's form
(`InputRequiredToolResult`), authorization is decided anew in each round, and no middleware waits. The component, its
dependencies, and a mounted server with its own middleware run in a frame. The guards of a mounted server
(`AuthMiddleware`) are called in each round too. A call stays with the component version that it asked for. A call that
a middleware makes by itself is no round of a client, and can't ask.

FastMCP keeps the present request in context variables. In a frame these variables hold objects that read through to the
present round; rounds don't set the variables. A dependency that is passed as a value (`CurrentHeaders()`) has the value
of the round that entered the handler: call `get_http_headers()` for the present round's. `ctx.set_state` lasts as long
as the frame.

Not supported: `ctx.sample` and `ctx.list_roots`, which FastMCP 4 no longer has (`ctx.session.create_message` and
`ctx.session.list_roots` suspend); questions from background tasks, which FastMCP refuses; questions from tools that are
called by the hashed names of apps. The `timeout` of a tool runs while its user thinks, as on earlier revisions.

Private parts of FastMCP that are touched, besides those that `fastmcp_host`, `fastmcp_code`, `fastmcp_components` and
`fastmcp_span` name (a missing part gives a clear error; a test names the release):

- `Context._is_modern_protocol`: makes `Context.elicit` refuse; a copy of the context gets one that returns False
- `fastmcp_request_ctx`, its `_srctx`, and `_current_context`: the present request
"""

from __future__ import annotations

import contextlib
import contextvars
import copy
import functools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, get_args, get_origin

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server import context as contexts
from fastmcp.server import elicitation
from fastmcp.server.context import Context
from fastmcp.server.dependencies import FastMCPRequestContext, extract_version_spec, fastmcp_request_ctx
from fastmcp.utilities.versions import VersionSpec
from mcp.server.request_state import compact_json
from mcp.shared.exceptions import MCPError

from framehold_core.errors import StoreUnavailable

from ..engine import token_claims
from ..frame import context as variables
from ..sdk import form_schemas
from ..sdk.boundary import Binding
from ..sdk.replies import Unavailable
from ..sdk.session import Ctx, FrameSession
from .fastmcp_code import GUARDED, NamedEntry, component_handler
from .fastmcp_components import MountedServer, author_of, authorized, found, moved, serving, understood
from .fastmcp_results import KINDS, AskingMethod, fastmcp_error
from .fastmcp_span import follow_rounds
from .seam_builder import SeamBuilder

TESTED = ("4.1.7", "4.2.3")
"""The releases of fastmcp that this file and the others of FastMCP were read off."""

_serves: contextvars.ContextVar[FastMCPRequestContext | None] = contextvars.ContextVar(
    f"{variables.OWN_PREFIX}serves", default=None
)
"""The request whose chain runs. A call that the author's middleware makes meanwhile is not a round of this request."""

Next = Callable[[Any], Awaitable[Any]]
Chain = Callable[[Any, Next], Awaitable[Any]]


class FastMCPRounds:
    """Runs the middleware chain of a server. For a round of a client, the seam stands at the end of the chain."""

    def __init__(self, server: FastMCP[Any], chain: Chain, seams: SeamBuilder) -> None:
        self._server = server
        self.chain = chain
        """What runs FastMCP's own chain."""
        self.seams = seams
        """Makes the seams."""

    async def __call__(self, context: Any, call_next: Next) -> Any:
        present, kind = fastmcp_request_ctx.get(), KINDS.get(context.method)
        within_another = isinstance(present, Bound) or _serves.get() is present
        if kind is None or present is None or within_another or _suspends(present):
            # A listing, a call from the author's own code, or one that a call's middleware or handler makes.
            return await self.chain(context, call_next)
        unavailable: Unavailable | None = None

        async def within(inner: Any) -> Any:
            nonlocal unavailable
            unavailable = None
            try:
                return await self._round(present._srctx, kind, inner, call_next)
            except Unavailable as error:
                unavailable = error
                raise

        serves = _serves.set(present)
        try:
            result = await self.chain(context, within)
        except Exception:
            if unavailable is None:
                raise
        finally:
            _serves.reset(serves)
        if unavailable is not None:
            # Even if an author's middleware caught it: another node replies to this request, or this one later.
            raise unavailable
        return result

    async def _round(self, ctx: Ctx, kind: AskingMethod, context: Any, call_next: Next) -> Any:
        name = str(getattr(context.message, kind.field))
        version = extract_version_spec(_meta(ctx))
        spec = VersionSpec(eq=version) if version else None
        on_the_way: list[MountedServer] = []
        state = (ctx.params or {}).get("requestState")
        named = (context.method, name, spec)
        entry = await self._found(*named, on_the_way) or await self._gone(*named, state)
        if entry is None:
            # FastMCP reports the missing component itself, also to a user who may no longer use it.
            return await call_next(context)
        if state is not None:
            await authorized(context, kind.field, on_the_way)

        async def entered(inner: Ctx, _: Any) -> Any:
            with bound(inner):
                return await kind.keep(call_next(context), name)

        handler = component_handler(self._server, name, *entry, entered, self.seams.codes)
        seam = self.seams.seam(entered, context.method, type(context.message), lambda method, params: handler)
        try:
            return kind.give(await seam(ctx, context.message))
        except MCPError as error:
            original = fastmcp_error(error)
        try:
            # Raised in the `except` block it would have the MCPError as its context, which refers back to it: a cycle.
            # A Python frame that refers to its own error is a cycle too.
            raise original
        finally:
            del original

    async def _found(
        self, method: str, name: str, version: VersionSpec | None, on_the_way: list[MountedServer]
    ) -> NamedEntry | None:
        """What a client's name leads to; None if this user can use nothing by that name."""
        present = await found(self._server, method, name, version, on_the_way)
        return None if present is None else NamedEntry(author_of(present.component), present.served)

    async def _gone(self, method: str, name: str, version: VersionSpec | None, state: Any) -> NamedEntry | None:
        """What a call entered whose component this release does not have; None if the call can't go on.

        It can't if the component is only hidden from this user, or if that is not known, since the walk can't read all
        providers. Nor if the component had authorization of its own: nothing decides that any more. Nor if the code is
        that of another component, whose rights would be those that count.
        """
        if not token_claims.is_of_a_call(state):
            return None
        others = serving(self._server, method, name)
        if not understood(self._server) or any(version is None or version.matches(item.version) for item in others):
            return None
        runtime = self.seams.runtime
        try:
            kept = await runtime.kept_code(state)
        except StoreUnavailable as error:
            raise Unavailable(str(error), runtime.retry_after) from None
        if kept is None or kept.about.get(GUARDED, True) or not kept.serves(method, name):
            return None
        return NamedEntry(kept.function, None)


class VersionBinding(Binding):
    """Binds a request state to its user, and to the version of the component that the client asked for, if any."""

    def __call__(self, ctx: Ctx) -> str | None:
        user, version = super().__call__(ctx), extract_version_spec(_meta(ctx))
        return user if version is None else compact_json([user, version])


def _read(read: Callable[[Any], Any]) -> Any:
    return property(read)


class Bound(FastMCPRequestContext):
    """The present request, as FastMCP keeps it, for a handler that outlives its requests."""

    def __init__(self, ctx: Ctx) -> None:
        self._srctx = ctx

    session = _read(lambda self: self._srctx.session)
    request_id = _read(lambda self: None if self._srctx.request_id is None else str(self._srctx.request_id))
    meta = _read(lambda self: _meta(self._srctx))
    request = _read(lambda self: self._srctx.request)
    protocol_version = _read(lambda self: self._srctx.protocol_version)
    close_sse_stream = _read(lambda self: self._srctx.close_sse_stream)
    lifespan_context = _read(lambda self: self._srctx.lifespan_context)


@contextlib.contextmanager
def bound(inner: Ctx) -> Iterator[None]:
    """Let FastMCP take `inner`, the context of a handler in its frame, for the present request."""
    token = fastmcp_request_ctx.set(Bound(inner))
    follow_rounds()
    try:
        yield
    finally:
        fastmcp_request_ctx.reset(token)


def _meta(ctx: Ctx) -> dict[str, Any] | None:
    """A copy of the present round's raw `_meta`; None if it has none."""
    live = ctx.session.live() if isinstance(ctx.session, FrameSession) else None
    meta = ((ctx if live is None else live).params or {}).get("_meta")
    return dict(meta) if isinstance(meta, Mapping) else None


def _suspends(present: FastMCPRequestContext) -> bool:
    """Whether the handler of this request runs in a frame."""
    return isinstance(present.session, FrameSession)


_elicit = Context.elicit
_NOT_ATTACHED = (
    "Framehold is not attached to the server {name!r}, or this is no tool that it can suspend: call "
    "framehold.attach(server) where it is made; or reach it as a client of 2025, as create_proxy(server, "
    'mode="legacy") does'
)
"""What FastMCP's refusal to ask on 2026-07-28 does not say, in a process that has Framehold."""


@functools.wraps(_elicit)
async def _suspending(self: Context, *args: Any, **kwargs: Any) -> Any:
    present = self.request_context
    if present is not None and _suspends(present):
        self = copy.copy(self)
        self.__dict__["_is_modern_protocol"] = lambda: False
    elif self._is_modern_protocol() and not self.is_background_task:
        try:
            return await _elicit(self, *args, **kwargs)
        except ToolError as error:
            raise ToolError(f"{error} {_NOT_ATTACHED.format(name=self.fastmcp.name)}") from None
    return await _elicit(self, *args, **kwargs)


def _is_plain(form: Any) -> bool:
    """Whether nothing computes the schema of a form: a plain model, or one plain value."""
    if get_origin(form) is elicitation.ScalarElicitationType:
        return all(map(form_schemas.is_plain_type, get_args(form)))
    return form_schemas.is_plain(form)


_forms = form_schemas.FormSchemas(elicitation.get_elicitation_schema, _is_plain)


def let_contexts_ask() -> None:
    """Make `Context.elicit` reach the session if that is a frame's. For any other session it stays unchanged, but that
    the schemas of plain forms are kept. Raises ConfigError."""
    current = getattr(contexts, "_current_context", None)
    if current is None or not callable(getattr(Context, "_is_modern_protocol", None)):
        raise moved("its refusal to elicit")
    variables.keep(fastmcp_request_ctx, current)
    Context.elicit = _suspending  # type: ignore[method-assign]
    elicitation.get_elicitation_schema = _forms  # type: ignore[assignment]
