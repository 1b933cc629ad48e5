"""One connection to a node, and the words in which it tells of a response.

The law: a response reaches the conversation that asked for it and no other, whole or said to be broken. A connection
serves again only after a response that was complete, that the node lets it outlive, and that nothing followed.

    1  head and pieces of the body are told as they come, a read's worth at a time
    2  the response is complete: the connection is idle before the conversation hears of it, since what it does next may
       be the next request
    3  an idle connection says something, or ends: it is dropped. A byte that nobody asked for would be read as the
       start of the next response
"""

from __future__ import annotations

import asyncio
import enum
from typing import Protocol, cast

from httptools import HttpParserError, HttpResponseParser

from .internal import Header

MAX_HEAD = 64 * 1024
"""The longest head of a response, in bytes, interim ones included."""
IDLE = 30.0
"""How long an idle connection is kept, in seconds. A node has to keep it longer."""

_CODED = b"transfer-encoding"
_SIZED = frozenset((_CODED, b"content-length"))


class Failure(enum.Enum):
    """Why there is no response, or no whole one."""

    NOT_SENT = "no byte was sent"
    BROKEN = "the connection broke, or was answered with something else than HTTP, after bytes were sent"
    SILENT = "nothing came for too long"
    ABANDONED = "nothing came, and whoever waits would rather ask elsewhere"


class Conversation(Protocol):
    """Hears one response: `began` once, `data` any number of times, then `done` or `failed`; never within `send`."""

    def began(self, status: int, headers: list[Header]) -> None:
        """The head; names in lower case. `data` or `done` follows at once."""

    def data(self, piece: bytes) -> None:
        """A piece of the body; empty where so far there is only the head."""

    def done(self, piece: bytes) -> None:
        """The last piece."""

    def failed(self, why: Failure) -> None: ...

    def abandons(self) -> bool:
        """Asked now and then while there is no response: whether to wait for it no longer."""


class Link(Protocol):
    """A conversation's hold on its connection, until it hears `done` or `failed`: then the connection is another's."""

    def abort(self) -> None:
        """Close the connection and hear no more."""

    def pause(self) -> None:
        """Read no more for now."""

    def resume(self) -> None: ...


class Pool(Protocol):
    """Where connections live. `timeout` is how long a node may be silent, in seconds; once `closed`, none is kept."""

    loop: asyncio.AbstractEventLoop
    connections: set[Connection]
    timeout: float
    closed: bool


class Connection(asyncio.Protocol):
    """One connection to a node."""

    __slots__ = (
        "_clock", "_complete", "_conversation", "_fed", "_headers", "_heard", "_idle", "_keep", "_mute", "_parser",
        "_paused", "_pieces", "_status", "_told", "_transport", "_upstream",
    )  # fmt: skip

    _transport: asyncio.Transport

    def __init__(self, upstream: Pool, idle: list[Connection]) -> None:
        self._upstream = upstream
        self._clock = upstream.loop.time
        self._idle = idle
        self._parser = HttpResponseParser(self)
        self._conversation: Conversation | None = None
        self._mute = False
        self._paused = False
        self._heard = 0.0
        self._reset()

    def _reset(self) -> None:
        self._status = 0
        self._headers: list[Header] = []
        self._pieces: list[bytes] = []
        self._told = False
        self._complete = False
        self._keep = False
        self._fed = 0

    def take(self, data: bytes, conversation: Conversation, mute: bool) -> bool:
        """Send a request; false where the connection is lost already and nothing was sent. `mute`: the response has no
        body, whatever its head says."""
        if self._transport.is_closing():
            return False
        self._conversation = conversation
        self._mute = mute
        self._heard = self._clock()
        self._transport.write(data)
        return True

    # Link.

    def abort(self) -> None:
        if self._conversation is not None:
            self._conversation = None
            self._transport.abort()

    def pause(self) -> None:
        if self._conversation is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._heard = self._clock()
            if not self._transport.is_closing():
                self._transport.resume_reading()

    # What the event loop says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._heard = self._clock()
        self._upstream.connections.add(self)

    def data_received(self, data: bytes) -> None:
        if self._conversation is None:
            self._transport.abort()
            return
        self._heard = self._clock()
        sound = True
        try:
            self._parser.feed_data(data)
        except HttpParserError:
            sound = False
        if self._complete:
            self._finish(self._keep and sound)
        elif not sound:
            self._fail(Failure.BROKEN)
        elif self._status:
            self._tell()
        else:
            self._fed += len(data)
            if self._fed > MAX_HEAD:
                self._fail(Failure.BROKEN)

    def eof_received(self) -> None:
        if self._conversation is None:
            return
        if self._status and not any(name in _SIZED for name, _ in self._headers):
            self._finish(False)
        else:
            self._fail(Failure.BROKEN)

    def connection_lost(self, exc: Exception | None) -> None:
        self._upstream.connections.discard(self)
        if self in self._idle:
            self._idle.remove(self)
        del self._parser  # it holds this connection in turn
        self._fail(Failure.BROKEN)

    def sweep(self, now: float) -> None:
        """Look whether the node is silent for too long, or the connection idle."""
        if self._conversation is None:
            if now - self._heard > IDLE:
                self._transport.abort()
        elif not self._paused and now - self._heard > self._upstream.timeout:
            self._fail(Failure.SILENT)
        elif not self._told and self._conversation.abandons():
            self._fail(Failure.ABANDONED)

    def close(self) -> None:
        """Break off whatever it carries."""
        self._fail(Failure.BROKEN)
        self._transport.abort()

    # What the parser says.

    def on_message_begin(self) -> None:
        if self._complete:
            raise ValueError("a second response")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._status:
            return  # a trailer
        name = name.lower()
        if name == _CODED and value.strip().lower() != b"chunked":
            raise ValueError("a transfer coding that wasn't asked for")
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 100 or status == 101 or status > 999:
            raise ValueError("no final status")
        if status < 200:
            self._headers = []
            return
        self._status = status
        if self._mute:
            # The parser would wait for the body that the head announces.
            self._complete = True

    def on_body(self, piece: bytes) -> None:
        if not self._mute:
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        if self._status:
            self._complete = True
            self._keep = self._parser.should_keep_alive() and not self._mute

    # The rest is private.

    def _tell(self) -> None:
        conversation = self._conversation
        pieces, self._pieces = self._pieces, []
        if conversation is not None and not self._told:
            self._told = True
            conversation.began(self._status, self._headers)
        if self._conversation is not None:
            self._conversation.data(b"".join(pieces))

    def _finish(self, reusable: bool) -> None:
        conversation, told = self._conversation, self._told
        status, headers, pieces = self._status, self._headers, self._pieces
        self._conversation = None
        if reusable and not self._upstream.closed:
            self._reset()
            self.resume()
            self._idle.append(self)
        else:
            self._transport.abort()
        if conversation is not None:
            if not told:
                conversation.began(status, headers)
            conversation.done(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _fail(self, why: Failure) -> None:
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            self._transport.abort()
            conversation.failed(why)
