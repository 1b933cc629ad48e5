"""The HTTP/1.1 server that clients connect to.

The law: the number of connections is limited, and so is the time of each of their states. One timer checks all
connections: every second, or every quarter of the shortest limit if that is less. A timer for each request would cost
more.

At the end of a server no connection is accepted any more, idle connections close, each request under way is answered
with `Connection: close`, and what is left at the deadline is broken off. If an idle connection is closed at once, a
request may be on its way to it and fails; a request without a token can't be repeated safely. So `leave` may be called
before: it answers one more request on each connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable

from ..limits import Limits
from .client_connection import ClientConnection, ClientConnections
from .response import Handle

_log = logging.getLogger(__name__)

BACKLOG = 65_535
"""Connections that may wait to be accepted; the kernel limits it to net.core.somaxconn."""


class HttpServer:
    """A running server; `serve` starts one. `handle` answers its requests."""

    def __init__(self, handle: Handle, limits: Limits) -> None:
        self.connections = ClientConnections(handle, limits)
        self.loop = self.connections.loop
        self.swept: Callable[[], None] = lambda: None
        """Called after each check of the connections: once a second, or more often."""
        self._server: asyncio.Server | None = None
        self._pause = min(1.0, limits.client_timeout / 4, limits.keep_alive / 4)
        self._timer = self.loop.call_later(self._pause, self._sweep)

    async def listen(self, listening: socket.socket) -> None:
        """Accept connections on a bound TCP or Unix socket."""
        if listening.family == socket.AF_UNIX:
            self._server = await self.loop.create_unix_server(self._accept, sock=listening, backlog=BACKLOG)
        else:
            self._server = await self.loop.create_server(self._accept, sock=listening, backlog=BACKLOG)

    async def leave(self, patience: float) -> None:
        """Stop accepting connections; each connection closes after its next response. Returns when no connection is
        left, or after `patience` seconds."""
        await self._stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._none_left()

    async def close(self, deadline: float) -> None:
        """Stop accepting connections, wait up to `deadline` seconds for requests under way, and break off the rest."""
        await self._stop()
        for connection in tuple(self.connections.open):
            connection.drain()
        try:
            async with asyncio.timeout(deadline):
                await self._none_left()
        except TimeoutError:
            if self.connections.open:
                _log.warning("%d connections outlasted the drain; they are broken off", len(self.connections.open))
            for connection in tuple(self.connections.open):
                connection.abort()
            await self._none_left()
        self._timer.cancel()

    async def _stop(self) -> None:
        if self._server is not None:
            await close_server(self._server)
        self.connections.draining = True

    async def _none_left(self) -> None:
        while self.connections.open:
            self.connections.none_open.clear()
            await self.connections.none_open.wait()

    def _accept(self) -> ClientConnection:
        return ClientConnection(self.connections)

    def _sweep(self) -> None:
        if self.connections.draining and not self.connections.open:
            return
        self._timer = self.loop.call_later(self._pause, self._sweep)
        now = self.loop.time()
        for connection in tuple(self.connections.open):
            connection.sweep(now)
        self.swept()


async def close_server(server: asyncio.Server) -> None:
    """Stop accepting connections; the protocol of each that was accepted has it when this returns.

    asyncio serves a connection one turn of the loop after it was accepted. If its server is closed in between, nobody
    is told of the connection, and its client waits until the collector finds the socket (CPython's issue 109564)."""
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening)
    await asyncio.sleep(0)
    server.close()
    await asyncio.sleep(0)


async def serve(handle: Handle, limits: Limits, listening: socket.socket) -> HttpServer:
    """Start a server on the bound socket `listening`, whose requests `handle` answers. `HttpServer.close` ends it."""
    server = HttpServer(handle, limits)
    await server.listen(listening)
    return server
