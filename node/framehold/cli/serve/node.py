"""`framehold node`: one server in one process, on uvicorn with httptools and uvloop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from types import FrameType
from typing import Any

import uvicorn

from framehold_core.errors import ConfigError

from ...config import Settings
from ...hosts.attached import Attached
from ...hosts.event_bus import end_streams
from ...http.app import Application
from ...telemetry.log_fields import add_call_fields
from .limits import raise_files
from .log import announce, log
from .target import app_of

logger = logging.getLogger("framehold")
BACKLOG = 65_535
"""Connections that may wait to be accepted, up to the kernel's net.core.somaxconn. All calls of a dead node may come at
once, and a router gives up a connection that is not accepted within a second."""
_CUT_SHORT = 1
"""The exit code of a process that didn't end by itself within a lease's life after its name was taken."""
GRACE = 10.0
"""Seconds that running rounds have to end after Ctrl-C."""


def run(server: Any, settings: Settings, host: str, port: int) -> None:
    """Serve `server`, or an app that `framehold.asgi` made of one, as one node until a signal.

    Raises:
        ConfigError: the server can't be served, its handlers' marks don't fit the settings, or the port can't be used.
        NodeNameTaken: another process runs under this node's name.
    """
    log(settings, node=settings.node_id)
    add_call_fields()
    raise_files()
    app = app_of(server, settings)
    app.attached.check()
    listening = listen(host, port)
    heartbeat, address = app.attached.runtime.heartbeat, url_of(host, listening)
    # The address that other processes use, unless FRAMEHOLD_ADVERTISE_URL names one that works from other machines.
    heartbeat.address = heartbeat.address or address
    store = "memory (parked calls die with this process)" if settings.store_url is None else settings.store().target
    announce(settings, f"framehold node {settings.node_id} serves {address}/mcp, store: {store}")
    options = uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="on",
        # Seconds for the streams that clients still listen on when all calls have ended.
        timeout_graceful_shutdown=2,
        # Seconds, longer than routers keep an idle connection, so that no request meets a connection that is being
        # closed.
        timeout_keep_alive=90,
        http="httptools",
        backlog=BACKLOG,
    )
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        runner.run(_serve(Server(options, app.attached), app, listening))


class Server(uvicorn.Server):
    """A uvicorn server that leaves its fleet before it stops listening.

    After SIGTERM calls have FRAMEHOLD_DRAIN_TIMEOUT to end, and load balancers have FRAMEHOLD_DRAIN_AT_LEAST to notice.
    After SIGINT (Ctrl-C) the node waits for running rounds, and not for answers to parked calls. A second signal
    ends the process without a wait."""

    def __init__(self, config: uvicorn.Config, attached: Attached) -> None:
        super().__init__(config)
        self._server, self._runtime = attached.server, attached.runtime
        self._leaving: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        self._loop = asyncio.get_running_loop()
        # The lifespan of the author's server may have added handlers.
        add_call_fields()
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal. It may interrupt the main thread at any instruction, so the drain begins in the event
        loop."""
        if self._loop is None or not self.started or self._leaving is not None:
            super().handle_exit(sig, frame)
        else:
            self._loop.call_soon_threadsafe(self._begin, sig)

    def _begin(self, sig: int) -> None:
        if self._leaving is None:
            self._leaving = asyncio.get_running_loop().create_task(self._leave(sig), name="framehold drain")

    async def _leave(self, sig: int) -> None:
        settings = self._runtime.settings
        timeout = settings.drain_timeout
        try:
            if sig == signal.SIGTERM:
                async with asyncio.TaskGroup() as group:
                    group.create_task(asyncio.sleep(settings.drain_at_least))
                    group.create_task(self._runtime.drain(timeout))
            else:
                await self._runtime.drain(min(timeout, GRACE), parked=False)
            await self._runtime.end()
            end_streams(self._server)
        except Exception:
            logger.exception("a bug in leaving the fleet; this process ends now, others take its calls over")
        super().handle_exit(sig, None)


async def _serve(server: uvicorn.Server, app: Application, listening: socket.socket) -> None:
    watch = asyncio.create_task(_leave_when_lost(server, app))
    try:
        await server.serve(sockets=[listening])
    except SystemExit:
        # uvicorn raises SystemExit when the app did not start. The cause is in `app.failure`.
        if app.failure is None:
            raise
    finally:
        watch.cancel()
        listening.close()
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


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0 takes a free one.

    Raises:
        ConfigError: the address or the port can't be used."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # The protocol is explicit, because asyncio sets TCP_NODELAY only then. Without it a request takes 40 ms longer.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise _listen_error(host, port, error) from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise _listen_error(host, port, error) from None
    listening.setblocking(False)
    return listening


def url_of(host: str, listening: socket.socket) -> str:
    """The URL by which other processes reach a listening socket. For a wildcard `host` it has this machine's name."""
    if host in ("0.0.0.0", "::", ""):
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"


def _listen_error(host: str, port: int, error: OSError) -> ConfigError:
    return ConfigError(
        f"can't listen on {host}:{port}: {error.strerror or error}; nothing was started; choose another --port"
    )


def event_loop() -> Any:
    """The factory of uvloop's event loops; None, for asyncio's own, if uvloop is not installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
