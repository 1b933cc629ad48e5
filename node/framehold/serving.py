"""A server as an ASGI app: our entry in front, the SDK's own app behind it, one lifespan round both.

Authentication guards our entry as it guards the SDK's: the endpoint's own wrapper is copied round it, and so are the
app's middlewares. Without any there is nothing in between."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from mcp.server.auth.middleware.bearer_auth import RequireAuthMiddleware
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from framehold_core.errors import ConfigError

from .admin import Admin
from .attach import attach
from .attached import Attached
from .collector import tune
from .config import Settings
from .cors import Browsers
from .entry import Entry
from .handlers import fastmcp_of
from .hop import received
from .probes import PROBES
from .sticky import Sticky
from .strangers import Strangers

logger = logging.getLogger(__name__)
PATH = "/mcp"
_SESSIONS = ("mcp.server.streamable_http_manager", "mcp.server.streamable_http")
"""Loggers of the SDK that tell ids of sessions whole, at INFO: whoever reads one may speak in its session."""


class Application:
    """What `framehold.asgi` returns. Mounted in an app that doesn't run its `lifespan`, it starts itself with its first
    request, and ends when the loop does."""

    def __init__(self, attached: Attached, app: Starlette, security: TransportSecuritySettings, server: Any) -> None:
        self.attached, self._app = attached, app
        self.server = server
        """What its author gave."""
        served = Sticky(_guarded(attached, app, security), attached.runtime)
        self._fast = Strangers(Browsers(served, security.allowed_origins))
        own = {route.path for route in app.routes if isinstance(route, Route)}
        self._probes = {path: probe for path, probe in PROBES.items() if path not in own}
        self._admin = Admin(attached)
        self._administers = set(self._admin.endpoints) - own
        self._ready: asyncio.Future[None] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self.failure: Exception | None = None
        """Why the lifespan could not start."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._keeper = asyncio.get_running_loop().create_task(self._keep(self._ready), name="framehold-keeper")
        if not self._ready.done():
            await asyncio.shield(self._ready)
        # A start that failed is told to every request: none is served by what never started.
        self._ready.result()
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        runtime = self.attached.runtime
        hop = received(scope, runtime.peers.trust, runtime.settings.node_id, runtime.settings.route_headers)
        path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
        if path == PATH:
            # As the app itself would: its middleware may look there.
            scope["app"] = self._app
            await self._fast(scope, receive, hop.telling(send))
        elif (probe := self._probes.get(path)) is not None:
            await probe(self.attached, Request(scope, receive))(scope, receive, send)
        elif path in self._administers:
            await self._admin(hop, path, scope, receive, send)
        else:
            await self._app(scope, receive, hop.telling(send))

    @asynccontextmanager
    async def lifespan(self, parent: object = None) -> AsyncIterator[None]:
        """What the app that this one is mounted in runs, so that it starts and ends with it:
        `Starlette(lifespan=mounted.lifespan)`, likewise FastAPI; or `async with mounted.lifespan():` in a lifespan of
        its own. `parent` is not looked at."""
        async with self._starting():
            self._ready = asyncio.get_running_loop().create_future()
            self._ready.set_result(None)
            yield

    def _starting(self) -> AbstractAsyncContextManager[object]:
        """The SDK's app while it runs; what its start says is said of a server over HTTP."""
        self.attached.over_http = True
        if self.attached.settings.log_level != "debug":
            for name in _SESSIONS:
                if (sessions := logging.getLogger(name)).level == logging.NOTSET:
                    sessions.setLevel(logging.WARNING)
        return self._app.router.lifespan_context(self._app)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """The ASGI lifespan: a start that failed is reported in one line, not as a traceback."""
        await receive()
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self.lifespan())
            except Exception as error:
                self.failure = error
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            # A server that runs our lifespan runs us as its app: the process is ours to tune.
            tune(self.attached.runtime)
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _keep(self, ready: asyncio.Future[None]) -> None:
        """Hold the lifespan open for a parent that runs none: in one task, since what is entered there must leave
        there."""
        if self.attached.settings.store_url is not None:
            logger.warning(
                "the app that this one is mounted in doesn't run its lifespan: when the process ends no call is handed "
                "off, and its lease runs out by itself; give the parent lifespan=app.lifespan, app being what "
                "framehold.asgi returned"
            )
        try:
            async with self._starting():
                ready.set_result(None)
                # The loop's end cancels this task, which is no error of anybody's.
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
        settings: what to use instead of the `FRAMEHOLD_*` environment.
        legacy_shim, max_rounds, round_timeout: as for `attach`.

    Raises:
        TypeError: `server` is none of these.
        ConfigError: a setting is wrong or missing; the message names it.
    """
    attached = attach(server, settings, legacy_shim=legacy_shim, max_rounds=max_rounds, round_timeout=round_timeout)
    return Application(attached, *_app(server, attached.settings), server)


def _app(server: Any, chosen: Settings) -> tuple[Starlette, TransportSecuritySettings]:
    """The server's own app, and what our entry checks of hosts and origins."""
    if (outer := fastmcp_of(server)) is not None:
        from . import fastmcp

        return fastmcp.http_app(outer, chosen, PATH, _local())
    security = None
    if chosen.allowed_hosts or chosen.allowed_origins:
        security = TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=list(chosen.allowed_hosts),
            allowed_origins=list(chosen.allowed_origins),
        )
    app = server.streamable_http_app(
        streamable_http_path=PATH, max_request_body_size=chosen.max_body, transport_security=security
    )
    return app, security or _local()


def _local() -> TransportSecuritySettings:
    """The SDK's own default: a server that nobody told otherwise answers to local names only (DNS rebinding)."""
    hosts = ["127.0.0.1:*", "localhost:*", "[::1]:*"]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True, allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
    )


def _guarded(attached: Attached, app: Starlette, security: TransportSecuritySettings | None) -> ASGIApp:
    """Our entry behind whatever stands before the SDK's endpoint."""
    route = next((item for item in app.routes if isinstance(item, Route) and item.path == PATH), None)
    if route is None:
        raise ConfigError(f"the server's app has no route {PATH}; this release of mcp builds it otherwise")
    guard = route.endpoint if isinstance(route.endpoint, RequireAuthMiddleware) else None
    # What is not ordinary goes to the endpoint itself: it has passed all that stands before it already.
    entry: ASGIApp = Entry(attached, route.app if guard is None else guard.app, security)
    if guard is not None:
        entry, inner = copy.copy(guard), entry
        entry.app = inner
    for middleware in reversed(app.user_middleware):
        entry = middleware.cls(entry, *middleware.args, **middleware.kwargs)
    return entry
