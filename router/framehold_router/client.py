"""A client's connection to the front, in callbacks.

The law: requests of a connection are answered one at a time and in order, nothing of one reaches another, and no client
holds more than its limits: a body, a head and a line of bounded length, one request's bytes kept besides the one that
is being answered, and a bounded time to send a request or to read what it was sent.

    1  a request is whole: it is handed over, and what came after it waits unparsed
    2  more bytes come while it is answered: they wait too, and beyond 64 KiB reading stops. Until then a client that
       leaves is seen at once, since only who reads sees the end of a connection
    3  the response ends: the waiting bytes are read on the next turn of the loop, not within the call that ended it
    4  the client leaves before the end: the listener hears `gone`, once, and whatever is still written goes nowhere
    5  a refused request: the answer leaves, the sending side is shut, and what still comes is thrown away for two
       seconds. A connection that is closed over unread bytes is reset, and the client never reads why

Nobody waits on a timer of his own: the front looks at all connections from time to time.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Protocol, cast

from .config import RouterSettings
from .message import Request
from .reader import Reader, Refused
from .reply import Response, plain

KEPT = 64 * 1024
"""Bytes that may wait behind the request that is being answered, before reading stops."""
LINGER = 2.0
"""How long what a refused client still sends is thrown away, in seconds."""
_SPARE = 256  # connections beyond the limit that are told so; the next ones are dropped without a word
_RESET = struct.pack("ii", 1, 0)


class House(Protocol):
    """Where connections live. `buffered` counts the bytes of bodies that are on their way on all of them, `refused` is
    told of each request that nobody else hears of."""

    loop: asyncio.AbstractEventLoop
    settings: RouterSettings
    draining: bool
    buffered: int
    connections: set[Connection]
    refused: Callable[[int], None]

    def answer(self, request: Request, response: Response) -> None: ...

    def discard(self, connection: Connection) -> None: ...


class Connection(asyncio.Protocol):
    """One client's."""

    __slots__ = (
        "_choked", "_clock", "_deaf", "_front", "_held", "_limit", "_peer", "_reader", "_receiving", "_response",
        "_rest", "_since", "_transport", "_unread", "_waiting",
    )  # fmt: skip

    _transport: asyncio.Transport

    def __init__(self, front: House) -> None:
        self._front = front
        self._clock = front.loop.time
        self._reader = Reader(front.settings.max_body)
        self._response: Response | None = None
        self._peer = ""
        self._rest = b""
        self._waiting = False  # reading has stopped
        self._choked = False  # the client doesn't read
        self._deaf = False  # nothing more is read: only the end of what was sent is waited for
        self._unread = 0
        self._since = 0.0  # when the present state began: idle, receiving, choked or deaf
        self._limit = front.settings.keep_alive  # how long it may last
        self._receiving = False
        self._held = 0

    # What the event loop says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._since = self._clock()
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if isinstance(peer, tuple) else ""
        over = len(self._front.connections) - self._front.settings.max_connections
        self._front.connections.add(self)
        if over >= _SPARE:
            self._transport.abort()
        elif over >= 0:
            self._refuse(503, "Too many connections (FRAMEHOLD_MAX_CONNECTIONS); nothing was read. Try again later")

    def data_received(self, data: bytes) -> None:
        if self._response is None and not self._rest and not self._choked and not self._deaf:
            self._read(data)
        elif not self._deaf:
            self._rest += data
            if len(self._rest) > KEPT and not self._waiting:
                self._waiting = True
                self._transport.pause_reading()

    def eof_received(self) -> None:
        # Whoever shuts its sending side has left: a client that waits for an answer keeps it open.
        self._left()

    def connection_lost(self, exc: Exception | None) -> None:
        self._front.discard(self)
        self._hold(0)
        self._deaf = True
        self._reader.drop()
        self._left()

    def pause_writing(self) -> None:
        self._choked = True
        self._unread = self._transport.get_write_buffer_size()
        if not self._deaf:
            self._state(self._front.settings.client_timeout)
        if self._response is not None and self._response.listener is not None:
            self._response.listener.pause()

    def resume_writing(self) -> None:
        self._choked = False
        if self._response is None:
            self._go_on()
        elif self._response.listener is not None:
            self._response.listener.resume()

    # What the response says.

    @property
    def closing(self) -> bool:
        return self._front.draining

    def send(self, data: bytes) -> None:
        self._transport.write(data)

    def ended(self, keep_alive: bool) -> None:
        self._response = None
        if not keep_alive or self._front.draining:
            self._close()
        else:
            self._go_on()

    def broken(self) -> None:
        self._response = None
        # A reset, so that a body which ends with its connection isn't taken for a whole one.
        self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._deaf = True
        self._transport.abort()

    # What the sweep says.

    def sweep(self, now: float) -> None:
        """Look whether the present state has lasted too long."""
        if self._choked:
            unread = self._transport.get_write_buffer_size()
            if unread < self._unread:
                self._unread, self._since = unread, now
            elif now - self._since > self._front.settings.client_timeout:
                self._transport.abort()
        elif self._response is not None or self._rest or now - self._since <= self._limit:
            pass
        elif self._receiving:
            timeout = f"{self._front.settings.client_timeout:g} s (FRAMEHOLD_CLIENT_TIMEOUT)"
            self._refuse(408, f"The request was not complete within {timeout}; nothing was started")
        else:
            self._transport.abort()

    def drain(self) -> None:
        """Close if idle; whatever is under way is the connection's last."""
        if self._response is None and not self._receiving and not self._rest and not self._deaf:
            self._close()

    def abort(self) -> None:
        self._transport.abort()

    # The rest is private.

    def _read(self, data: bytes) -> None:
        reader = self._reader
        try:
            used = reader.feed(data)
        except Refused as refused:
            self._refuse(refused.status, refused.text)
            return
        if reader.held != self._held and self._hold(reader.held):
            limit = f"{self._front.settings.max_buffered} bytes (FRAMEHOLD_MAX_BUFFERED)"
            self._refuse(503, f"Too much is being received at once: the limit is {limit}; nothing was started")
            return
        if not reader.whole:
            if not self._receiving:
                self._receiving = True
                self._state(self._front.settings.client_timeout)
            if reader.expects and reader.version:
                reader.expects = False
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return
        self._receiving = False
        if used < len(data):
            self._rest = data[used:]
        version, keep_alive = reader.version, reader.keep_alive
        request = reader.take(self._peer)
        response = self._response = Response(self, request.method, version, keep_alive)
        self._front.answer(request, response)

    def _hold(self, size: int) -> bool:
        """Count what this client has sent of a body; whether all clients together are over the limit."""
        front = self._front
        front.buffered += size - self._held
        self._held = size
        return front.buffered > front.settings.max_buffered

    def _go_on(self) -> None:
        """Read what waited, or wait for more."""
        if self._rest:
            self._front.loop.call_soon(self._next)
        elif not self._deaf:
            self._state(self._front.settings.keep_alive)

    def _next(self) -> None:
        if self._deaf or self._choked or self._response is not None or not self._rest:
            return
        rest, self._rest = self._rest, b""
        self._hear()
        self._read(rest)

    def _hear(self) -> None:
        if self._waiting:
            self._waiting = False
            self._transport.resume_reading()

    def _state(self, limit: float) -> None:
        self._since, self._limit = self._clock(), limit

    def _left(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.lost()

    def _close(self) -> None:
        """End the connection once what was written has left."""
        if self._rest:
            self._part()
        else:
            self._deaf = True
            self._state(self._front.settings.client_timeout)
            self._transport.close()

    def _refuse(self, status: int, text: str) -> None:
        self._front.refused(status)
        self._transport.write(plain(status, text))
        self._part()

    def _part(self) -> None:
        """End the sending side once what was written has left, and throw away what still comes."""
        self._deaf = True
        self._rest = b""
        self._receiving = False
        self._hold(0)
        self._state(min(LINGER, self._front.settings.client_timeout))
        self._transport.write_eof()
        self._hear()
