"""A server as an ASGI app: Framehold's entry in front, the SDK's own app behind it, and one lifespan round both.

Authentication guards Framehold's entry as it guards the SDK's endpoint: the wrapper of the endpoint is copied round the
entry, and so are the app's middlewares. Where there are none, a request goes straight to the entry.

A private part of the SDK is touched here; a test names the release: `StreamableHTTPASGIApp.session_manager`, which
`session_affinity` has to reach. FastMCP's app has the same."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import copy_context
from typing import Any, NamedTuple

from mcp.server.auth.middleware.bearer_auth import RequireAuthMiddleware
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from framehold_core.errors import ConfigError
from framehold_fleet.guard.hosts import REFUSAL

from ..admin import access
from ..admin.api import Admin
from ..admin.port import AdminPort
from ..admin.probes import PROBES, Probe
from ..config import Settings
from ..engine.gc_tuning import tune
from ..frame import contained
from ..hosts.attach import attach
from ..hosts.attached import Attached
from ..hosts.host_choice import host_of
from ..sdk.hop import Hop, introduce, received
from ..sdk.token import Target
from . import mounting
from .body import Reception
from .cors import Cors
from .entry import HttpEntry
from .foreign_response import Outside
from .node_relay import NodeRelay
from .ordinary_rounds import Inside, OrdinaryRounds, rounds_of
from .refusal_log import RefusalLog
from .session_affinity import SESSIONLESS, SessionAffinity, name_sessions

logger = logging.getLogger(__name__)
PATH = "/mcp"
_SLASH_TOO_MANY = "/mcp/"
_SESSION_LOGGERS = ("mcp.server.streamable_http_manager", "mcp.server.streamable_http")
"""Loggers of the SDK that write whole session ids at level INFO. Anybody who reads such an id may use the session."""


class _Stack(NamedTuple):
    """What stands before the SDK's app. `full` serves MCP requests of the HTTP `methods` (None: of any), `plain` those
    of them that `_is_plain` names, and `rounds` those that are ordinary rounds (None: none is); `probes` and
    `administers` are the paths that Framehold serves itself."""

    full: Cors
    plain: ASGIApp
    rounds: OrdinaryRounds | None
    methods: set[str] | None
    probes: Mapping[str, Probe]
    administers: set[str]


class Application:
    """The ASGI app that `framehold.asgi` returns. If it is mounted in an app that doesn't run its `lifespan`, it starts
    itself with its first request, and ends with the event loop.

    It is a Starlette app in all its names: what authors add to an app of the SDK they add here in the same way."""

    def __init__(self, attached: Attached, app: Starlette, security: TransportSecuritySettings, server: Any) -> None:
        self.attached, self._app, self._security = attached, app, security
        self.server = server
        """The server as its author gave it to `asgi`."""
        self._endpoint = _endpoint(app)
        self._relay = NodeRelay(attached.runtime.peers)
        self._admin = Admin(attached)
        self._has_admin_port = False
        self._is_strict = security.enable_dns_rebinding_protection
        self._refusals = RefusalLog()
        self._stranger = self._refusals.around(PlainTextResponse(f"{REFUSAL}\n", 421))
        """What answers to a request for a page by a `Host` that is not allowed."""
        self._stack: _Stack | None = None
        self._ready: asyncio.Future[None] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._variables = copy_context()
        """The context variables of who made this app."""
        self.failure: Exception | None = None
        """The error that kept the lifespan from starting, if any."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if (ready := self._ready) is None or not ready.done():
            await asyncio.shield(ready := self._begun())
        # If the start failed, every request raises that error: a server that never started serves none.
        ready.result()
        assert self._stack is not None, "an app that is ready has its stack"
        stack, runtime = self._stack, self.attached.runtime
        if runtime.peers.prefix is None:
            runtime.peers.prefix = mounting.told(scope)
        if not scope["path"].startswith("/"):
            _use_path(scope)
        hop = None
        if stack.rounds is not None and scope["path"] == PATH:
            target, hop = self._known(stack.rounds, scope, receive)
            if target is not None:
                answering = send if hop is None else hop.adding_headers(send)
                again = await stack.rounds.serve(target, scope, receive, answering, hop)
                if again is None:
                    return
                receive = again
        hop = received(scope, receive, runtime) if hop is None else hop
        if hop.introduction is not None:
            await introduce(hop.introduction, send)
            return
        await self._serve(stack, hop, scope, receive, send)

    async def _serve(self, stack: _Stack, hop: Hop, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that `rounds` does not serve."""
        if scope["type"] != "http":
            served = not self._is_strict or access.answers(hop, scope, self.attached.settings)
            await (self._app if served else WebSocketClose())(scope, receive, send)
            return
        contained.begin()
        path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
        if path == _SLASH_TOO_MANY:
            path = _without_slash(scope)
        if path == PATH and (stack.methods is None or scope["method"] in stack.methods):
            # Starlette sets this too: the app's middleware may read it.
            scope["app"] = self._app
            endpoint = stack.plain if _is_plain(scope) else stack.full
            await endpoint(scope, receive, hop.adding_headers(send))
        else:
            await self._page(stack, path, hop, scope, receive, send)

    def _begun(self) -> asyncio.Future[None]:
        """Done when this app has started. It starts itself with its first request, if nobody has started it."""
        if self._ready is None:
            loop = asyncio.get_running_loop()
            self._ready = loop.create_future()
            # All requests share it: it takes over nothing of the first one.
            self._keeper = loop.create_task(
                self._keep(self._ready), name="framehold-keeper", context=self._variables.copy()
            )
        return self._ready

    def _known(self, rounds: OrdinaryRounds, scope: Scope, receive: Receive) -> tuple[Target | None, Hop | None]:
        """What a request at PATH is for, None if its head is not known; and its hop, None if that was not looked at."""
        runtime, hop, target = self.attached.runtime, None, None
        if not runtime.settings.route_headers:
            target = rounds.heads.target(scope)
        if target is None:
            hop = received(scope, receive, runtime)
            target = rounds.heads.target(scope) if hop.introduction is None else None
        scope["app"] = self._app
        return target, hop

    async def _page(self, stack: _Stack, path: str, hop: Hop, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that is none for MCP. Pages of the author answer to the names that MCP requests do, unless
        FastMCP's guard alone decides."""
        is_own = path in stack.probes or path in stack.administers
        if (is_own or self._is_strict) and not access.answers(hop, scope, self.attached.settings):
            await self._stranger(scope, receive, send)
        elif (probe := stack.probes.get(path)) is not None:
            await probe(self.attached, Request(scope, receive))(scope, receive, send)
        elif path in stack.administers:
            await self._admin(hop, path, scope, receive, send)
        else:
            await self._app(scope, receive, hop.adding_headers(send))

    def take_admin_port(self) -> AdminPort:
        """Make the app of the admin port, for whoever serves it. From then on this app answers 404 to `/metrics`
        and `/admin`.

        Raises:
            RuntimeError: the app has started.
        """
        if self._stack is not None:
            raise RuntimeError("this app has started; nothing was changed; take the admin port before")
        self._has_admin_port = True
        return AdminPort(self.attached, self._admin, self._stranger)

    def __getattr__(self, name: str) -> Any:
        """What a Starlette app has besides: `add_middleware`, `add_route`, `add_exception_handler`, `mount`, `routes`,
        `state`, `url_path_for` ... are those of the SDK's app. MCP requests pass through its middlewares and exception
        handlers, in instances of their own; Framehold's probes and `/admin` pass through none.

        Raises:
            AttributeError: an app of the SDK has no such name.
        """
        if name == "_app":
            raise AttributeError(name)
        try:
            return getattr(self._app, name)
        except AttributeError:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute: `debug` and whatever else a Starlette app has is set on the SDK's app."""
        if "_app" in self.__dict__ and name not in self.__dict__ and hasattr(self._app, name):
            setattr(self._app, name, value)
        else:
            super().__setattr__(name, value)

    def __dir__(self) -> Iterable[str]:
        return {*super().__dir__(), *dir(self._app)}

    @asynccontextmanager
    async def lifespan(self, parent: object = None) -> AsyncIterator[None]:
        """The lifespan of this app. An app that mounts this one runs it, so that both start and end together:
        `Starlette(lifespan=mounted.lifespan)`, `FastAPI(lifespan=mounted.lifespan)`, or
        `async with mounted.lifespan():` in a lifespan of its own. `parent` is the app that runs it, if it says so."""
        peers = self.attached.runtime.peers
        peers.prefix = mounting.found(self, parent) if peers.prefix is None else peers.prefix
        async with self._starting(asyncio.get_running_loop().create_future()):
            yield

    @asynccontextmanager
    async def _starting(self, ready: asyncio.Future[None]) -> AsyncIterator[None]:
        """Run the lifespan of the SDK's app. The warnings at its start are those for a server over HTTP. Requests go
        on when `ready` is done; after the end, the next one starts this app again."""
        if self._stack is None:
            self._stack = self._built()
        self.attached.begin_service(over_http=True)
        if self.attached.settings.log_level != "debug":
            for name in _SESSION_LOGGERS:
                if (session_logger := logging.getLogger(name)).level == logging.NOTSET:
                    session_logger.setLevel(logging.WARNING)
        try:
            async with self._app.router.lifespan_context(self._app):
                endpoint = _inside(self._endpoint.endpoint)
                name_sessions(endpoint, self.attached.runtime)
                # FastMCP's app leaves the check of hosts and origins to its guard, which lets more pass.
                endpoint.session_manager.security_settings = self._security
                ready.set_result(None)
                self._ready = ready
                yield
        finally:
            # A second lifespan that fails ends nothing of the one that runs.
            if self._ready is ready:
                await self._relay.close()
                self._ready = None

    def _built(self) -> _Stack:
        """What stands before the SDK's app, with the middlewares and routes that it has now."""
        attached, taken = self.attached, self._endpoint.methods
        log = self._refusals
        reception = Reception(attached.runtime)

        def enter(rest: ASGIApp, wrapped: bool) -> ASGIApp:
            entry = HttpEntry(attached, self._relay, rest, self._security, reception, wrapped)
            rounds = rounds_of(attached, entry, reception.intake) if wrapped else None
            return entry if rounds is None else Inside(rounds, entry)

        guarded = _guarded(self._app, self._endpoint, enter, log)
        plain = Outside(guarded, attached.runtime) if _is_wrapped(self._app) else guarded
        served = SessionAffinity(guarded, plain, attached.runtime, self._relay.forward, reception)
        cors = Cors(served, self._security.allowed_origins)
        log.allows = cors.allows
        own = {route.path for route in self._app.routes if isinstance(route, Route)}
        elsewhere = {"/metrics"} if self._has_admin_port else set()
        # Built now, so that Starlette refuses a middleware that comes later.
        self._app.middleware_stack = self._app.build_middleware_stack()
        return _Stack(
            full=cors,
            plain=plain,
            rounds=rounds_of(attached, guarded, reception.intake) if isinstance(guarded, HttpEntry) else None,
            methods=None if taken is None else {*taken, "OPTIONS"},
            probes={path: probe for path, probe in PROBES.items() if path not in own | elsewhere},
            administers=set() if self._has_admin_port else set(self._admin.endpoints) - own,
        )

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """Serve the ASGI lifespan protocol. A start that failed is reported in one line, and then raised: a test
        client waits for the exception, and uvicorn drops it."""
        await receive()
        # Who runs the lifespan protocol of this app serves it at the root: an app that mounts another runs none of it.
        self.attached.runtime.peers.prefix = ""
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self.lifespan())
            except Exception as error:
                self.failure = error
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                raise
            # A server that runs this lifespan runs this app as its only one: so the process may be tuned for it.
            tune(self.attached.runtime)
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _keep(self, ready: asyncio.Future[None]) -> None:
        """Hold the lifespan open for a parent that runs none. One task enters and leaves it: a cancel scope must be
        left in the task that entered it."""
        if self.attached.settings.store_url is not None:
            logger.warning(
                "the app that this one is mounted in doesn't run its lifespan: when the process ends no call is handed "
                "off, and its lease runs out by itself; give the parent lifespan=app.lifespan, app being what "
                "framehold.asgi returned"
            )
        try:
            async with self._starting(ready):
                # The end of the loop cancels this task: that is not an error.
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.get_running_loop().create_future()
        except Exception as error:
            if not ready.done():
                ready.set_exception(error)
                self._ready = ready


def asgi(
    server: Any,
    settings: Settings | None = None,
    *,
    legacy_shim: bool | None = None,
    max_rounds: int | None = None,
    round_timeout: float | None = None,
) -> Application:
    """An ASGI app that serves `server` at `/mcp`, with `await ctx.elicit(...)` as a genuine suspension on 2026-07-28.

    Clients of earlier revisions are served as the SDK serves them. Run it with any ASGI server (`uvicorn
    server:app`), or mount it in another app that runs its `lifespan`. One process needs nothing else: frames and
    journal are then kept in memory and die with it.

    Args:
        server: an MCPServer, a low-level mcp Server with its handlers registered, or a FastMCP server.
        settings: settings in code; what they do not set is read from the `FRAMEHOLD_*` environment.
        legacy_shim: as for `attach`.
        max_rounds: as for `attach`.
        round_timeout: as for `attach`.

    Raises:
        TypeError: `server` is none of these.
        ConfigError: a setting is wrong or missing; the message names it.
    """
    attached = attach(server, settings, legacy_shim=legacy_shim, max_rounds=max_rounds, round_timeout=round_timeout)
    return Application(attached, *host_of(server).http_app(attached.settings, PATH), server)


def _is_plain(scope: Scope) -> bool:
    """Whether nothing is to be done for a request before it reaches the entry.

    The promise: `Cors` passes on a request without an origin, and `SessionAffinity` one of a revision without
    sessions."""
    headers = dict(scope["headers"])
    return b"origin" not in headers and headers.get(b"mcp-protocol-version") in SESSIONLESS


def _without_slash(scope: Scope) -> str:
    """Take a client that has a slash too many for one that has none. Starlette would send it to the `Host` that it
    named, by plain HTTP behind a load balancer that ends TLS."""
    scope["path"] = scope["path"].removesuffix("/")
    if "raw_path" in scope:
        scope["raw_path"] = scope["raw_path"].removesuffix(b"/")
    return PATH


def _use_path(scope: Scope) -> None:
    """Drop scheme and authority from a target in absolute form, which a server must accept (RFC 9112, section 3.2.2).
    uvicorn with h11 passes it on as the path."""
    for name, slash in (("path", "/"), ("raw_path", b"/")):
        if name in scope:
            _, _, rest = scope[name].partition(slash * 2)
            scope[name] = slash + rest.partition(slash)[2]


def _endpoint(app: Starlette) -> Route:
    """The route of the SDK's endpoint."""
    route = next((item for item in app.routes if isinstance(item, Route) and item.path == PATH), None)
    if route is None:
        raise ConfigError(f"the server's app has no route {PATH}; this release of mcp builds it otherwise")
    return route


def _inside(endpoint: Any) -> Any:
    """The SDK's endpoint without its guard."""
    return endpoint.app if isinstance(endpoint, RequireAuthMiddleware) else endpoint


def _guarded(app: Starlette, route: Route, enter: Callable[[ASGIApp, bool], ASGIApp], log: RefusalLog) -> ASGIApp:
    """Framehold's entry, behind the same guard and middlewares as the SDK's endpoint. What may refuse a host or an
    origin stands behind `log`: the endpoint, and the middlewares if there are any. `enter` makes the entry of what it
    does not serve, and of whether middlewares alone stand before it."""
    guard = route.endpoint if isinstance(route.endpoint, RequireAuthMiddleware) else None
    # What the entry does not serve goes to the endpoint itself: it has passed guard and middlewares already.
    endpoint = route.app if guard is None else guard.app
    is_wrapped = _is_wrapped(app)
    entry = enter(endpoint if is_wrapped else log.around(endpoint), is_wrapped)
    if guard is not None:
        entry, inner = copy.copy(guard), entry
        entry.app = inner
    return log.around(_wrapped(app, entry)) if is_wrapped else entry


def _is_wrapped(app: Starlette) -> bool:
    """Whether the author has added anything to an app that stands round its routes. Instrumentors replace its
    `build_middleware_stack`."""
    added = app.user_middleware or app.exception_handlers or app.debug or "build_middleware_stack" in vars(app)
    return bool(added) or vars(app).get("max_body_size") is not None


def _wrapped(app: Starlette, entry: ASGIApp) -> ASGIApp:
    """`entry` in what stands round the routes of `app`: its middlewares and exception handlers."""
    router, app.router = app.router, entry  # type: ignore[assignment]  # the stack is built around whatever it is
    try:
        return app.build_middleware_stack()
    finally:
        app.router = router
