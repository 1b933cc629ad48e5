"""`framehold node`: one server in one process, on uvicorn with httptools and uvloop."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from types import FrameType
from typing import Any

import uvicorn

from framehold_core.errors import ConfigError

from ..attached import Attached
from ..bus import end_streams
from ..config import Settings
from ..serving import Application, asgi
from .limits import raise_files
from .log import announce, log

logger = logging.getLogger("framehold")
BACKLOG = 65_535
"""Connections that may wait to be accepted; the kernel allows what net.core.somaxconn says. A router gives up on one
that is not accepted within a second, and all calls of a dead node may come at once."""
GRACE = 10.0
"""Seconds that rounds which run have when Ctrl-C ends a node."""


def run(server: Any, settings: Settings, host: str, port: int) -> None:
    """Serve until a signal ends it.

    Raises:
        ConfigError: the server can't be served, or not as its handlers are marked, or the port can't be had.
        NodeNameTaken: another process runs under this node's name.
    """
    log(settings, node=settings.node_id)
    raise_files()
    try:
        app = asgi(server, settings)
    except TypeError as error:
        raise ConfigError(str(error)) from None
    app.attached.check()
    listening = listen(host, port)
    heartbeat, address = app.attached.runtime.heartbeat, url_of(host, listening)
    # What others are told, unless the environment said where they reach this node from outside its machine.
    heartbeat.address = heartbeat.address or address
    store = "memory (parked calls die with this process)" if settings.store_url is None else settings.store().target
    announce(settings, f"framehold node {settings.node_id} serves {address}/mcp, store: {store}")
    options = uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="on",
        # What is left when all calls have ended: the last of streams that clients listen on.
        timeout_graceful_shutdown=2,
        # Longer than routers keep an idle connection: a request must not meet a connection that is being closed.
        timeout_keep_alive=90,
        http="httptools",
        backlog=BACKLOG,
    )
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        runner.run(_serve(Server(options, app.attached), app, listening))


class Server(uvicorn.Server):
    """A uvicorn that leaves its fleet before it stops listening.

    SIGTERM gives calls FRAMEHOLD_DRAIN_TIMEOUT, and load balancers FRAMEHOLD_DRAIN_AT_LEAST to learn of it; SIGINT
    (Ctrl-C) waits for rounds that run, and for nobody's answer. A second signal waits for nothing."""

    def __init__(self, config: uvicorn.Config, attached: Attached) -> None:
        super().__init__(config)
        self._server, self._runtime = attached.server, attached.runtime
        self._leaving: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal, in the main thread, between any two instructions of it."""
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
        # That is how the server says that the app did not start; why, only the app knows.
        if app.failure is None:
            raise
    finally:
        watch.cancel()
        listening.close()
    if app.failure is not None:
        raise app.failure


async def _leave_when_lost(server: uvicorn.Server, app: Application) -> None:
    """A process that finds another one under its own name must not go on (PROTOCOL rule 4)."""
    await app.attached.runtime.heartbeat.lost.wait()
    server.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises ConfigError where it can't be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # Named, because asyncio sets TCP_NODELAY only where it sees the protocol: 40 ms a request without.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise _unheard(host, port, error) from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise _unheard(host, port, error) from None
    listening.setblocking(False)
    return listening


def url_of(host: str, listening: socket.socket) -> str:
    """How this machine's other processes reach it; the name of the machine where it listens on all addresses."""
    if host in ("0.0.0.0", "::", ""):
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"


def _unheard(host: str, port: int, error: OSError) -> ConfigError:
    return ConfigError(
        f"can't listen on {host}:{port}: {error.strerror or error}; nothing was started; choose another --port"
    )


def event_loop() -> Any:
    """uvloop where the platform has it."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
