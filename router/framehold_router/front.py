"""The side that clients connect to: one HTTP/1.1 server.

The law: it holds no more connections than it may, and none longer than its limits allow. One sweep looks at all of
them, a quarter of the shortest limit apart and a second at most: a timer for each request would cost more than it
guards.

Its end: nothing is accepted any more; idle connections close; each request under way is answered, with
`Connection: close`; what is left at the deadline is broken off. Closed at once, an idle connection may break a request
that is on its way, and one without a token can't be sent again: `leave` lets each bring one more before that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable

from .client import Connection
from .config import RouterSettings
from .message import Handle, Request
from .reply import Response

_log = logging.getLogger(__name__)

BACKLOG = 65_535
"""Connections that may wait to be accepted; the kernel allows what net.core.somaxconn says."""


class Front:
    """A running server; `serve` starts one."""

    def __init__(self, handle: Handle, settings: RouterSettings) -> None:
        self.loop = asyncio.get_running_loop()
        self.settings = settings
        self.draining = False
        self.buffered = 0
        """Bytes of bodies that are on their way."""
        self.connections: set[Connection] = set()
        self.refused: Callable[[int], None] = lambda status: None
        """Told of each request that was refused before it was handed over."""
        self._handle = handle
        self._server: asyncio.Server | None = None
        self._empty = asyncio.Event()
        self._pause = min(1.0, settings.client_timeout / 4, settings.keep_alive / 4)
        self._timer = self.loop.call_later(self._pause, self._sweep)

    async def listen(self, listening: socket.socket) -> None:
        """Accept from a bound TCP or Unix socket."""
        if listening.family == socket.AF_UNIX:
            self._server = await self.loop.create_unix_server(self._accept, sock=listening, backlog=BACKLOG)
        else:
            self._server = await self.loop.create_server(self._accept, sock=listening, backlog=BACKLOG)

    def answer(self, request: Request, response: Response) -> None:
        """Hand a request over."""
        try:
            self._handle(request, response)
        except Exception:
            _log.exception("a request broke the router; its connection is closed, other requests go on")
            response.abort()

    def discard(self, connection: Connection) -> None:
        """A connection is lost."""
        self.connections.discard(connection)
        if not self.connections:
            self._empty.set()

    async def leave(self, patience: float) -> None:
        """Stop accepting; each response is its connection's last. Returns when there are no connections left, or after
        `patience` seconds."""
        self._stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._none_left()

    async def close(self, deadline: float) -> None:
        """Stop accepting, let what is under way end within `deadline` seconds, break off the rest."""
        self._stop()
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

    def _stop(self) -> None:
        self.draining = True
        if self._server is not None:
            self._server.close()

    async def _none_left(self) -> None:
        while self.connections:
            self._empty.clear()
            await self._empty.wait()

    def _accept(self) -> Connection:
        return Connection(self)

    def _sweep(self) -> None:
        self._timer = self.loop.call_later(self._pause, self._sweep)
        now = self.loop.time()
        for connection in tuple(self.connections):
            connection.sweep(now)


async def serve(handle: Handle, settings: RouterSettings, listening: socket.socket) -> Front:
    """Answer with `handle` what comes in on `listening`; `close` ends it."""
    front = Front(handle, settings)
    await front.listen(listening)
    return front
