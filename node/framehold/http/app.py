"""A server as an ASGI app: Framehold's entry in front, the SDK's own app behind it, and one lifespan round both.

Authentication guards Framehold's entry as it guards the SDK's endpoint: the wrapper of the endpoint is copied round the
entry, and so are the app's middlewares. Where there are none, a request goes straight to the entry."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from mcp.server.auth.middleware.bearer_auth import RequireAuthMiddleware
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from framehold_core.errors import ConfigError

from ..admin.api import Admin
from ..admin.probes import PROBES
from ..config import Settings
from ..engine.gc_tuning import tune
from ..hosts.attach import attach
from ..hosts.attached import Attached
from ..hosts.host_choice import host_of
from ..sdk.hop import received
from .cors import Cors
from .entry import Entry
from .node_relay import NodeRelay
from .refusal_log import RefusalLog
from .session_affinity import SessionAffinity

logger = logging.getLogger(__name__)
PATH = "/mcp"
_SESSION_LOGGERS = ("mcp.server.streamable_http_manager", "mcp.server.streamable_http")
"""Loggers of the SDK that write whole session ids at level INFO. Anybody who reads such an id may use the session."""


class Application:
    """The ASGI app that `framehold.asgi` returns. If it is mounted in an app that doesn't run its `lifespan`, it starts
    itself with its first request, and ends with the event loop."""

    def __init__(self, attached: Attached, app: Starlette, security: TransportSecuritySettings, server: Any) -> None:
        self.attached, self._app = attached, app
        self.server = server
        """The server as its author gave it to `asgi`."""
        self._relay = NodeRelay(attached.runtime.peers)
        guarded = _guarded(attached, self._relay, app, security)
        served = SessionAffinity(guarded, attached.runtime, self._relay.forward)
        self._fast = RefusalLog(Cors(served, security.allowed_origins))
        own = {route.path for route in app.routes if isinstance(route, Route)}
        self._probes = {path: probe for path, probe in PROBES.items() if path not in own}
        self._admin = Admin(attached)
        self._administers = set(self._admin.endpoints) - own
        self._ready: asyncio.Future[None] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self.failure: Exception | None = None
        """The error that kept the lifespan from starting, if any."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._keeper = asyncio.get_running_loop().create_task(self._keep(self._ready), name="framehold-keeper")
        if not self._ready.done():
            await asyncio.shield(self._ready)
        # If the start failed, every request raises that error: a server that never started serves none.
        self._ready.result()
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        runtime = self.attached.runtime
        hop = received(scope, runtime.peers.trust, runtime.settings.node_id, runtime.settings.route_headers)
        path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
        if path == PATH:
            # Starlette sets this too: the app's middleware may read it.
            scope["app"] = self._app
            await self._fast(scope, receive, hop.adding_headers(send))
        elif (probe := self._probes.get(path)) is not None:
            await probe(self.attached, Request(scope, receive))(scope, receive, send)
        elif path in self._administers:
            await self._admin(hop, path, scope, receive, send)
        else:
            await self._app(scope, receive, hop.adding_headers(send))

    @asynccontextmanager
    async def lifespan(self, parent: object = None) -> AsyncIterator[None]:
        """The lifespan of this app. An app that mounts this one runs it, so that both start and end together:
        `Starlette(lifespan=mounted.lifespan)`, `FastAPI(lifespan=mounted.lifespan)`, or
        `async with mounted.lifespan():` in a lifespan of its own. `parent` is ignored."""
        async with self._starting():
            self._ready = asyncio.get_running_loop().create_future()
            self._ready.set_result(None)
            yield

    @asynccontextmanager
    async def _starting(self) -> AsyncIterator[None]:
        """Run the lifespan of the SDK's app. The warnings at its start are those for a server over HTTP."""
        self.attached.over_http = True
        if self.attached.settings.log_level != "debug":
            for name in _SESSION_LOGGERS:
                if (session_logger := logging.getLogger(name)).level == logging.NOTSET:
                    session_logger.setLevel(logging.WARNING)
        try:
            async with self._app.router.lifespan_context(self._app):
                yield
        finally:
            await self._relay.close()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """Serve the ASGI lifespan protocol. A start that failed is reported in one line, not as a traceback."""
        await receive()
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self.lifespan())
            except Exception as error:
                self.failure = error
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
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
            async with self._starting():
                ready.set_result(None)
                # The end of the loop cancels this task: that is not an error.
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.get_running_loop().create_future()
        except Exception as error:
            if not ready.done():
                ready.set_exception(error)


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
        settings: settings to use instead of the `FRAMEHOLD_*` environment.
        legacy_shim, max_rounds, round_timeout: as for `attach`.

    Raises:
        TypeError: `server` is none of these.
        ConfigError: a setting is wrong or missing; the message names it.
    """
    attached = attach(server, settings, legacy_shim=legacy_shim, max_rounds=max_rounds, round_timeout=round_timeout)
    return Application(attached, *host_of(server).http_app(attached.settings, PATH), server)


def _guarded(
    attached: Attached, relay: NodeRelay, app: Starlette, security: TransportSecuritySettings | None
) -> ASGIApp:
    """Framehold's entry, behind the same guard and middlewares as the SDK's endpoint."""
    route = next((item for item in app.routes if isinstance(item, Route) and item.path == PATH), None)
    if route is None:
        raise ConfigError(f"the server's app has no route {PATH}; this release of mcp builds it otherwise")
    guard = route.endpoint if isinstance(route.endpoint, RequireAuthMiddleware) else None
    # A request that is not ordinary goes to the endpoint itself: it has passed guard and middlewares already.
    entry: ASGIApp = Entry(attached, relay, route.app if guard is None else guard.app, security)
    if guard is not None:
        entry, inner = copy.copy(guard), entry
        entry.app = inner
    for middleware in reversed(app.user_middleware):
        entry = middleware.cls(entry, *middleware.args, **middleware.kwargs)
    return entry
