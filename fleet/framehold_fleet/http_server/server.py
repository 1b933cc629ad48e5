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
from .client_connection import ClientConnection
from .message import Handle, Request
from .places import yielding
from .response import Response

_log = logging.getLogger(__name__)

BACKLOG = 65_535
"""Connections that may wait to be accepted; the kernel limits it to net.core.somaxconn."""


_LOOK_AGAIN = 0.1
"""Seconds for which no connection is looked for that may end, after none was found."""


class Front:
    """A running server; `serve` starts one. `handle` answers its requests."""

    def __init__(self, handle: Handle, limits: Limits) -> None:
        self.loop = asyncio.get_running_loop()
        self.limits = limits
        self.draining = False
        self.buffered = 0
        """Bytes that all connections hold of requests which are not answered."""
        self.connections: set[ClientConnection] = set()
        self.refused: Callable[[int], None] = lambda status: None
        """Called with the status of each request that is refused before it is handed over."""
        self.crowded: Handle | None = None
        """Replies to a request that is refused for want of room, without its body; None: its connection refuses it."""
        self.swept: Callable[[], None] = lambda: None
        """Called after each check of the connections: once a second, or more often."""
        self._handle = handle
        self._server: asyncio.Server | None = None
        self._empty = asyncio.Event()
        self._no_room_until = 0.0
        self._pause = min(1.0, limits.client_timeout / 4, limits.keep_alive / 4)
        self._timer = self.loop.call_later(self._pause, self._sweep)

    async def listen(self, listening: socket.socket) -> None:
        """Accept connections on a bound TCP or Unix socket."""
        if listening.family == socket.AF_UNIX:
            self._server = await self.loop.create_unix_server(self._accept, sock=listening, backlog=BACKLOG)
        else:
            self._server = await self.loop.create_server(self._accept, sock=listening, backlog=BACKLOG)

    def answer(self, request: Request, response: Response) -> None:
        """Give a complete request to the handler."""
        try:
            self._handle(request, response)
        except Exception:
            _log.exception("a bug in the handler of a request; its connection is closed, other requests go on")
            response.abort()

    def discard(self, connection: ClientConnection) -> None:
        """Forget a connection that is closed."""
        self.connections.discard(connection)
        if not self.connections:
            self._empty.set()

    def has_room(self, peer: str) -> bool:
        """Whether a client of this address gets a place though all are taken: others end for it (`places`)."""
        now = self.loop.time()
        if len(self.connections) < self.limits.max_connections:
            return True
        if now < self._no_room_until:
            return False
        places = ((connection, connection.peer, connection.yields_since(now)) for connection in self.connections)
        ended = yielding(places, peer)
        for connection in ended:
            self.discard(connection)
            connection.abort()
        if not ended:
            self._no_room_until = now + _LOOK_AGAIN
        return bool(ended)

    def largest(self) -> ClientConnection | None:
        """The connection that holds most of a request which is still being received; None if none is."""
        receiving = (connection for connection in self.connections if connection.is_receiving)
        return max(receiving, key=lambda connection: connection.held, default=None)

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
        for connection in tuple(self.connections):
            connection.drain()
        try:
            async with asyncio.timeout(deadline):
                await self._none_left()
        except TimeoutError:
            if self.connections:
                _log.warning("%d connections outlasted the drain; they are broken off", len(self.connections))
            for connection in tuple(self.connections):
                connection.abort()
            await self._none_left()
        self._timer.cancel()

    async def _stop(self) -> None:
        if self._server is not None:
            await close_server(self._server)
        self.draining = True

    async def _none_left(self) -> None:
        while self.connections:
            self._empty.clear()
            await self._empty.wait()

    def _accept(self) -> ClientConnection:
        return ClientConnection(self)

    def _sweep(self) -> None:
        if self.draining and not self.connections:
            return
        self._timer = self.loop.call_later(self._pause, self._sweep)
        now = self.loop.time()
        for connection in tuple(self.connections):
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


async def serve(handle: Handle, limits: Limits, listening: socket.socket) -> Front:
    """Start a server on the bound socket `listening`, whose requests `handle` answers. `Front.close` ends it."""
    front = Front(handle, limits)
    await front.listen(listening)
    return front
