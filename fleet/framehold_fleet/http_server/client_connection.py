"""The connection of a client, in callbacks of the event loop.

The law: the requests of a connection are answered one at a time and in order; no byte of one request gets into another;
and every resource that a client can hold is limited: the length of a line, a head and a body, the bytes that wait while
a request is answered, and the time to send a request or to read a response.

    1  a request is complete: it is handed over, and the bytes after it wait unparsed
    2  more bytes come while the request is answered: they wait too; beyond 64 KiB reading stops. Until reading stops, a
       client that leaves is noticed at once, because only a read shows the end of a connection
    3  the response ends: the waiting bytes are parsed on the next turn of the loop, not inside the call that ended it
    4  the client leaves before the response has ended: the listener gets one call of `gone`, and later writes are
       dropped
    5  a request is refused: the response is sent, the sending side is shut, and further bytes are discarded for two
       seconds. Closing a connection with unread bytes would reset it, and the client could not read the response
    6  all clients together hold too much: the largest request that is being received is refused, or the most bytes that
       wait behind a request are dropped, and their connection closes after its response

No connection has a timer: the server checks the time limits of all connections from time to time.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from contextvars import copy_context
from typing import cast

from ..limits import Limits
from .message import Request
from .places import yielding
from .request_reader import SMALL_BODY, Reader, RequestRefused
from .response import Handle, Response, plain

_log = logging.getLogger(__name__)

MAX_WAITING_BYTES = 64 * 1024
"""Bytes that may wait while a request is answered, before reading stops."""
DISCARD_SECONDS = 2.0
"""Seconds for which the bytes of a client whose request was refused are discarded."""
REMEMBERED = 10.0
"""Seconds for which the head of the last request is kept, so that it can be recognised when it comes again."""
GRACE = 1.0
"""Seconds for which a connection may be in any state before it ends for another client: a request may be on its way."""
LOOK_AGAIN = 0.1
"""Seconds for which no connection is looked for that may end, after none was found."""
_GET, _METHOD, _LISTEN, _STREAM = b"GET", b"mcp-method", b"subscriptions/listen", b"text/event-stream"
_MAX_REFUSED_CONNECTIONS = 256
"""Connections beyond the limit that get a 503; further ones are closed without a response."""
_RESET = struct.pack("ii", 1, 0)


class ClientConnections:
    """All connections of a server, and what they share. `handle` answers their requests."""

    def __init__(self, handle: Handle, limits: Limits) -> None:
        self.loop = asyncio.get_running_loop()
        self.limits = limits
        self.variables = copy_context()
        """The context variables of the server itself: those of no request."""
        self.open = set[ClientConnection]()
        self.draining = False
        self.buffered = 0
        """Bytes that all connections hold of requests which are not answered, and that wait behind these."""
        self.refused: Callable[[int], None] = lambda status: None
        """Called with the status of each request that is refused before it is handed over."""
        self.crowded: Handle | None = None
        """Replies to a request that is refused for want of room, without its body; None: its connection refuses it."""
        self.none_open = asyncio.Event()
        """Set whenever the last connection is closed."""
        self._handle = handle
        self._no_room_until = 0.0

    def answer(self, request: Request, response: Response) -> None:
        """Give a complete request to the handler."""
        try:
            self._handle(request, response)
        except Exception:
            _log.exception("a bug in the handler of a request; its connection is closed, other requests go on")
            response.abort()

    def discard(self, connection: ClientConnection) -> None:
        """Forget a connection that is closed."""
        self.open.discard(connection)
        if not self.open:
            self.none_open.set()

    def has_room(self, peer: str) -> bool:
        """Whether a client of this address gets a place though all are taken: others end for it (`places`)."""
        now = self.loop.time()
        if len(self.open) < self.limits.max_connections:
            return True
        if now < self._no_room_until:
            return False
        ended = yielding(((each, each.peer, each.yields_since(now)) for each in self.open), peer)
        for connection in ended:
            self.discard(connection)
            connection.abort()
        if not ended:
            self._no_room_until = now + LOOK_AGAIN
        return bool(ended)

    def largest(self) -> ClientConnection | None:
        """The connection that can let go of most bytes; None if there is none."""
        return max(self.open, key=lambda each: each.can_drop, default=None)


class ClientConnection(asyncio.Protocol):
    """The connection of one client."""

    __slots__ = (
        "_client_paused", "_clock", "_ending", "_limit", "_listens", "_reader", "_reading_paused", "_receiving",
        "_response", "_rest", "_since", "_transport", "_unread", "connections", "held", "peer",
    )  # fmt: skip

    _transport: asyncio.Transport

    def __init__(self, connections: ClientConnections) -> None:
        self.connections = connections
        self._clock = connections.loop.time
        self._reader = Reader(connections.limits)
        self._response: Response | None = None
        self.peer = ""
        """The client's address; empty on a Unix socket."""
        self._rest = b""
        self._reading_paused = False  # reading has stopped
        self._client_paused = False  # the client reads too slowly
        self._ending = False  # input is discarded; the connection closes when the output is sent
        self._unread = 0
        self._since = 0.0  # when the present state began: idle, receiving, listening, choked or deaf
        self._limit = connections.limits.keep_alive  # how long it may last
        self._receiving = False
        self._listens = False  # its response lasts until the client or the node ends it
        self.held = 0
        """Bytes of its request that count as held."""

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._since = self._clock()
        peer = transport.get_extra_info("peername")
        self.peer = peer[0] if isinstance(peer, tuple) else ""
        over = len(self.connections.open) - self.connections.limits.max_connections
        if over >= 0 and self.connections.has_room(self.peer):
            over = -1
        self.connections.open.add(self)
        if over >= _MAX_REFUSED_CONNECTIONS:
            self._transport.abort()
        elif over >= 0:
            named = self.connections.limits.named("MAX_CONNECTIONS")
            self._refuse(503, f"Too many connections{named}; nothing was read. Try again later")

    def data_received(self, data: bytes) -> None:
        if self._response is None and not self._rest and not self._client_paused and not self._ending:
            self._read(data)
        elif not self._ending:
            self._keep(self._rest + data)
            if len(self._rest) > SMALL_BODY and self.is_crowded():
                self._makes_room(len(self._rest))
            if len(self._rest) > MAX_WAITING_BYTES and not self._reading_paused:
                self._reading_paused = True
                self._transport.pause_reading()

    def eof_received(self) -> None:
        # A client that shuts its sending side counts as gone: one that waits for a response keeps it open.
        self._left()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.discard(self)
        self._hold(0)
        self._keep(b"")
        self._ending = True
        self._reader.drop()
        self._left()

    def pause_writing(self) -> None:
        self._client_paused = True
        self._unread = self._transport.get_write_buffer_size()
        if not self._ending or self._response is not None:
            self._begin_state(self.connections.limits.client_timeout)
        if self._response is not None and self._response.listener is not None:
            self._response.listener.pause()

    def resume_writing(self) -> None:
        self._client_paused = False
        if self._response is None:
            self._go_on()
        elif self._response.listener is not None:
            self._response.listener.resume()

    # Called by the response.

    @property
    def transport(self) -> asyncio.Transport:
        """The transport of the connection."""
        return self._transport

    @property
    def closing(self) -> bool:
        return self.connections.draining or self._ending

    def answered(self) -> None:
        if self.held:
            self._hold(0)

    def send(self, data: bytes) -> None:
        self._transport.write(data)

    def ended(self, keep_alive: bool) -> None:
        self._response = None
        if not keep_alive or self.closing:
            self._close()
        else:
            self._go_on()

    def broken(self) -> None:
        self._response = None
        # A reset: after an ordinary close, a body that ends with its connection would look complete.
        self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._ending = True
        self._transport.abort()

    # Called by the server.

    def sweep(self, now: float) -> None:
        """Close the connection if its present state has lasted too long. `now` is in seconds on the loop's clock."""
        if self._client_paused:
            unread = self._transport.get_write_buffer_size()
            if unread < self._unread:
                self._unread, self._since = unread, now
            elif now - self._since > self.connections.limits.client_timeout:
                self._transport.abort()
        elif self._response is not None or self._rest or now - self._since <= self._limit:
            if now - self._since > REMEMBERED:
                self._reader.forget()
        elif self._receiving:
            timeout = f"{self.connections.limits.client_timeout:g} s{self.connections.limits.named('CLIENT_TIMEOUT')}"
            self._refuse(408, f"The request was not complete within {timeout}; nothing was started")
        else:
            self._transport.abort()

    def drain(self) -> None:
        """Close the connection if it is idle; otherwise it closes after the request that is under way."""
        if self._response is None and not self._receiving and not self._rest and not self._ending:
            self._close()

    def abort(self) -> None:
        self._transport.abort()

    def yields_since(self, now: float) -> float | None:
        """Since when its state may end for another client; None if it must not end, or has just begun."""
        may_end = (self._response is None or self._listens) and not self._rest and not self._ending
        return self._since if may_end and now - self._since > GRACE else None

    # Private.

    def _read(self, data: bytes) -> None:
        reader = self._reader
        try:
            used = reader.feed(data)
        except RequestRefused as refused:
            self._refuse(refused.status, refused.text)
            return
        if (
            reader.held != self.held
            and self._hold(reader.held)
            and self.held > SMALL_BODY
            and not self._makes_room(self.held)
        ):
            return
        if not reader.whole:
            if reader.begun and not self._receiving:
                self._receiving = True
                self._begin_state(self.connections.limits.client_timeout)
            if reader.expects and reader.version:
                reader.expects = False
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return
        self._receiving = False
        if used < len(data):
            self._keep(data[used:])
        version, keep_alive = reader.version, reader.keep_alive
        request = reader.take(self.peer)
        head = request.head
        self._listens = head.fields.get(_METHOD) == _LISTEN or (
            head.method == _GET and _STREAM in head.fields.get(b"accept", b"").lower()
        )
        if self._listens:
            self._since = self._clock()
        response = self._response = Response(self, head.method, version, keep_alive)
        self.connections.answer(request, response)

    def _hold(self, size: int) -> bool:
        """Record that `size` bytes of a request are held for this client. Returns whether all clients together are over
        the limit."""
        self.connections.buffered += size - self.held
        self.held = size
        return self.is_crowded()

    def _keep(self, rest: bytes) -> None:
        """Keep these bytes, which wait until the request before them is answered, and no others."""
        self.connections.buffered += len(rest) - len(self._rest)
        self._rest = rest

    def is_crowded(self) -> bool:
        """Whether all clients together hold more than they may, with what this one holds."""
        return self.connections.buffered > self.connections.limits.max_buffered

    def _makes_room(self, size: int) -> bool:
        """Let go of the largest of what is being received, or waits, until all together fit the limit; whether these
        `size` bytes may stay."""
        while self.is_crowded():
            other = self.connections.largest()
            if other is None or other.can_drop <= size:
                self.refuse_for_room()
                return False
            other.refuse_for_room()
        return True

    def refuse_for_room(self) -> None:
        """Refuse the request that is being received, or drop what waits: all clients together send too much."""
        if self._response is not None:
            self._ending = True
            self._keep(b"")
            self._resume_reading()
            return
        if self.connections.crowded is None or not self._reader.version:
            limit = f"{self.connections.limits.max_buffered} bytes{self.connections.limits.named('MAX_BUFFERED')}"
            self._refuse(503, f"Too much is being received at once: the limit is {limit}; nothing was started")
            return
        # Still receiving: what comes until the response has ended is discarded then.
        self._receiving, self._listens = True, False
        request = self._reader.cut(self.peer)
        self._hold(0)
        response = self._response = Response(self, request.head.method, self._reader.version, keep_alive=False)
        self.connections.crowded(request, response)

    @property
    def can_drop(self) -> int:
        """Bytes of it that are not needed for a request under way."""
        return len(self._rest) if self._response is not None else self.held if self._receiving else 0

    def _go_on(self) -> None:
        """Parse the bytes that waited, or wait for more."""
        if not self._ending:
            self._begin_state(self.connections.limits.keep_alive)
        if self._rest:
            # The context of the request before, which called this, may hold who sent it.
            self.connections.loop.call_soon(self._next, context=self.connections.variables.copy())

    def _next(self) -> None:
        if self._ending or self._client_paused or self._response is not None or not self._rest:
            return
        rest = self._rest
        self._keep(b"")
        self._resume_reading()
        self._read(rest)

    def _resume_reading(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    def _begin_state(self, limit: float) -> None:
        self._since, self._limit = self._clock(), limit

    def _left(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.lost()

    def _close(self) -> None:
        """Close the connection after all written bytes have been sent."""
        if self._rest or self._receiving or self._ending:
            self._shut_down()
        else:
            self._ending = True
            self._begin_state(self.connections.limits.client_timeout)
            self._transport.close()

    def _refuse(self, status: int, text: str) -> None:
        self.connections.refused(status)
        self._transport.write(plain(status, text))
        self._shut_down()

    def _shut_down(self) -> None:
        """Shut the sending side after all written bytes have been sent, and discard the bytes that still come."""
        self._ending = True
        self._receiving = False
        self._reader.drop()
        self._hold(0)
        self._keep(b"")
        self._begin_state(min(DISCARD_SECONDS, self.connections.limits.client_timeout))
        try:
            self._transport.write_eof()
        except OSError:
            # The client has reset the connection; while reading has stopped nothing else shows it.
            self._transport.abort()
        self._resume_reading()
