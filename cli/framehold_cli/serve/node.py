"""`framehold node`: one server in one process, which uvicorn runs, on the fleet's HTTP server and uvloop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from types import FrameType
from typing import Any, Literal

import uvicorn

from framehold.config import Settings
from framehold.hosts.attached import Attached
from framehold.hosts.listeners import end_streams
from framehold.http.app import PATH, Application
from framehold.http.app_server import AppServer, needs_uvicorn
from framehold.telemetry.log_fields import add_call_fields
from framehold_fleet.limits import Limits
from framehold_store import system_clock

from . import outlast
from .http_protocol import MAX_HEAD, MAX_LINES, HttpProtocol
from .limits import raise_files
from .listening import BACKLOG, Sockets, event_loop, listen_on, url_of
from .log import announce, log
from .rounds import tell_of_rounds
from .target import app_of

logger = logging.getLogger("framehold")
_CUT_SHORT = 1
"""The exit code of a process that didn't end by itself within a lease's life after its name was taken."""
_TOLD = 0.2
"""Seconds in which the store hears that this node leaves, and routers read that."""
KEEP_ALIVE = 90
"""Seconds for which an idle connection stays open: longer than routers keep one, so that no request meets a connection
that is being closed."""
CLIENT_TIMEOUT = 30.0
"""Seconds that a client may take to send a complete request, or to read a response."""
GRACE = 10.0
"""Seconds that running rounds have to end after Ctrl-C."""


def run(server: Any, settings: Settings, host: str, port: int, show_rounds: bool = False) -> None:
    """Serve `server`, or an app that `framehold.asgi` made of one, as one node until a signal. `show_rounds`: tell of
    each round on standard output, for `framehold up`.

    Raises:
        ConfigError: the server can't be served, its handlers' marks don't fit the settings, or the port can't be used.
        NodeNameTaken: another process runs under this node's name.
    """
    log(settings, node=settings.node_id)
    add_call_fields()
    raise_files()
    app = app_of(server, settings)
    app.attached.check()
    if show_rounds:
        tell_of_rounds(app.attached, settings.node_id, partial(print, flush=True))
    sockets = listen_on(host, port, settings)
    heartbeat = app.attached.runtime.heartbeat
    # The address that other processes use, unless FRAMEHOLD_ADVERTISE_URL names one that works from other machines.
    heartbeat.address = heartbeat.address or url_of(host, sockets.clients)
    store = "memory (parked calls die with this process)" if settings.store_url is None else settings.store().target
    if sockets.admin is not None:
        app.attached.runtime.peers.admin_port = sockets.admin.getsockname()[1]
    http = protocol(app)
    own = ", on uvicorn: the app has routes of its own" if http is HttpProtocol and settings.server != "uvicorn" else ""
    announce(settings, f"framehold node {settings.node_id} serves {sockets.served(host)}, store: {store}{own}")
    admin = None if sockets.admin is None else AdminServer(app.take_admin_port(), sockets.admin)
    server = NodeServer(_options(app, "on", http), app.attached, admin)
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        outlast.run(runner, _serve(server, app, sockets), server.leave)


def protocol(app: Application) -> Any:
    """What makes a connection of a client: the fleet's server, or uvicorn's HTTP protocol."""
    settings, eviction = app.attached.settings, app.attached.runtime.eviction
    if settings.server == "uvicorn" or needs_uvicorn(app.routes, PATH):
        return HttpProtocol

    def limits() -> Limits:
        return Limits(
            max_body=settings.max_body,
            max_head=MAX_HEAD,
            max_headers=MAX_LINES,
            max_connections=BACKLOG,
            max_buffered=int(eviction.intake),
            client_timeout=CLIENT_TIMEOUT,
            keep_alive=KEEP_ALIVE,
            settings=frozenset(("MAX_BODY", "MAX_BUFFERED")),
        )

    def refused(status: int) -> None:
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            eviction.crowded_out()

    return AppServer(limits, refused).connection


def _options(app: Any, lifespan: Literal["on", "off"], http: Any = HttpProtocol) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan=lifespan,
        # Seconds for the streams that clients still listen on when all calls have ended.
        timeout_graceful_shutdown=2,
        timeout_keep_alive=KEEP_ALIVE,
        http=http,
        # Believed from this machine, they would let any client of a router here choose its address and scheme.
        proxy_headers=False,
        # Else a request that comes while the one before it is served runs with the variables of that one, its user too.
        reset_contextvars=True,
        backlog=BACKLOG,
    )


class _NoSignals(uvicorn.Server):
    """A server that leaves the signals of the process to the server of clients."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class AdminServer:
    """The server of the admin port, beside that of clients."""

    def __init__(self, app: Any, listening: socket.socket) -> None:
        self._server = _NoSignals(_options(app, "off"))
        self._listening = listening
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to serve."""
        self._task = asyncio.create_task(self._server.serve([self._listening]), name="framehold admin port")

    def leave(self) -> None:
        """Stop accepting connections."""
        self._server.should_exit = True

    async def close(self) -> None:
        """Wait until it no longer serves."""
        if self._task is not None:
            await asyncio.wait((self._task,))


class NodeServer(uvicorn.Server):
    """A uvicorn server that leaves its fleet before it stops listening.

    After SIGTERM calls have FRAMEHOLD_DRAIN_TIMEOUT to end, and load balancers have FRAMEHOLD_DRAIN_AT_LEAST to notice.
    After SIGINT (Ctrl-C) the node waits for running rounds, and not for answers to parked calls. A second signal
    ends the process without a wait."""

    def __init__(self, config: uvicorn.Config, attached: Attached, admin: AdminServer | None = None) -> None:
        super().__init__(config)
        self._admin = admin
        self._server, self._runtime = attached.server, attached.runtime
        self._leaving: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        self._loop = asyncio.get_running_loop()
        # The lifespan of the author's server may have added handlers.
        add_call_fields()
        await super().startup(sockets)
        if self._admin is not None:
            self._admin.open()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End to serve, on the admin port too."""
        if self._admin is not None:
            self._admin.leave()
        await super().shutdown(sockets)
        if self._admin is not None:
            await self._admin.close()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal. It may interrupt the main thread at any instruction, so the drain begins in the event
        loop."""
        if self._loop is None or not self.started or self._leaving is not None:
            super().handle_exit(sig, frame)
        else:
            self._loop.call_soon_threadsafe(self._begin, sig)

    def _begin(self, sig: int | None) -> None:
        if self._leaving is None:
            self._leaving = asyncio.get_running_loop().create_task(self._leave(sig), name="framehold drain")

    def leave(self) -> None:
        """Leave the fleet, then end. Called in the event loop."""
        self._begin(None)

    async def _leave(self, sig: int | None) -> None:
        settings = self._runtime.settings
        is_ordered = sig != signal.SIGINT
        timeout = settings.drain_timeout if is_ordered else min(settings.drain_timeout, GRACE)
        deadline = system_clock.now() + timeout
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(settings.drain_at_least if is_ordered else 0.0))
                group.create_task(self._runtime.drain(timeout, parked=is_ordered))
            await self._runtime.end()
            if self._runtime.draining.shared:
                # A client whose stream ends listens again at once, and a router must not send it here.
                await asyncio.sleep(_TOLD)
            end_streams(self._server)
            await self._runtime.draining.wait_for_responses(deadline - system_clock.now())
        except Exception:
            logger.exception("a bug in leaving the fleet; this process ends now, others take its calls over")
        if sig is None:
            self.should_exit = True
        else:
            super().handle_exit(sig, None)


async def _serve(server: uvicorn.Server, app: Application, sockets: Sockets) -> None:
    watch = asyncio.create_task(_leave_when_lost(server, app))
    try:
        await server.serve(sockets=[sockets.clients])
    except SystemExit:
        # uvicorn raises SystemExit when the app did not start. The cause is in `app.failure`.
        if app.failure is None:
            raise
    finally:
        watch.cancel()
        sockets.close()
    if app.failure is not None:
        raise app.failure


async def _leave_when_lost(server: uvicorn.Server, app: Application) -> None:
    """End this process when another process has taken its node name (docs/protocol.md, rule 4): requests that wait are
    refused, and whatever then still runs is cut off when one lease's life is over."""
    runtime = app.attached.runtime
    await runtime.heartbeat.lost.wait()
    # A thread of its own: an effect in a thread, or a handler that blocks the event loop, holds up everything else.
    deadline = threading.Timer(runtime.settings.lease_ttl, os._exit, (_CUT_SHORT,))
    deadline.daemon = True
    deadline.start()
    await runtime.end()
    server.should_exit = True
