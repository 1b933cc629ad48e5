"""One connection to a node, and the interface that delivers a response.

The law: a response is delivered to the conversation that sent the request and to no other; it is delivered whole, or
reported as broken. A connection is used again only if the response was complete, the node keeps the connection open,
and no byte followed the response.

    1  the head and the pieces of the body are delivered as they come, one call for each read
    2  the response is complete: the connection becomes idle before the conversation gets `done`, because the
       conversation may send the next request at once
    3  bytes come on an idle connection, or it ends: it is dropped. Such bytes would be read as the start of the next
       response

A response whose head is repeated is not fed to the parser (`repeated.py`).

Each request on a connection carries the sender's statement for this connection (`introduce`).
"""

from __future__ import annotations

import asyncio
import enum
import math
from collections.abc import Callable
from typing import Protocol, cast

from httptools import HttpParserError, HttpResponseParser

from framehold_fleet.headers import Header

from ..http_server.repeated import Repeated
from ..identity.statements import RENEWED
from .response_head import ResponseHead

MAX_HEAD = 64 * 1024
"""The longest head of a response in bytes, including interim responses."""
IDLE = 30.0
"""Seconds for which an idle connection is kept. Nodes must keep it longer."""
_JOINED = 4096
"""Bytes of a body up to which it is sent in one piece with its head."""

_CODED = b"transfer-encoding"
_LENGTH = b"content-length"
_BODILESS = frozenset((204, 304))


class LinkFailure(enum.Enum):
    """Why there is no response, or no complete one."""

    NOT_SENT = "no byte was sent"
    BROKEN = "the connection broke, or was answered with something else than HTTP, after bytes were sent"
    SILENT = "nothing came for too long"
    ABANDONED = "nothing came, and whoever waits would rather ask elsewhere"


class Conversation(Protocol):
    """Receives one response: `began` once, `data` any number of times, then `done`; or `failed` at any point. No method
    is called inside `Upstream.send`."""

    def began(self, head: ResponseHead, length: bytes | None) -> None:
        """Called with the head, and the length of the body if the head says it. `data` or `done` follows at once."""

    def data(self, piece: bytes) -> None:
        """Called with a piece of the body; empty if only the head has come so far."""

    def done(self, piece: bytes) -> None:
        """Called with the last piece of the body."""

    def failed(self, why: LinkFailure) -> None:
        """Called if there is no response, or no complete one. It is the last call."""

    def abandons(self) -> bool:
        """Called from time to time while there is no response. Returns whether to stop waiting for it."""


class NodeConnections:
    """All connections of a process to nodes. `timeout`: seconds for which a node may send nothing. `closed`: no idle
    connection is kept any more."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout: float) -> None:
        self.loop, self.timeout = loop, timeout
        self.open = set[NodeConnection]()
        self.closed = False


class NodeConnection(asyncio.Protocol):
    """One connection to a node."""

    __slots__ = (
        "_all", "_clock", "_coded", "_complete", "_conversation", "_fed", "_head_delivered", "_headers", "_keep",
        "_last_activity", "_length", "_mute", "_parser", "_paused", "_pieces", "_renewed", "_repeated", "_state",
        "_statement", "_status", "_transport", "idle",
    )  # fmt: skip

    _transport: asyncio.Transport

    def __init__(self, connections: NodeConnections, idle: list[NodeConnection]) -> None:
        self._all = connections
        self._clock = connections.loop.time
        self.idle = idle
        self._parser = HttpResponseParser(self)
        self._conversation: Conversation | None = None
        self._mute = False
        self._paused = False
        self._last_activity = 0.0
        self._state: Callable[[], bytes] | None = None
        self._statement = b""
        self._renewed = 0.0
        self._repeated: Repeated[ResponseHead] = Repeated()
        self._reset()

    def _reset(self) -> None:
        self._status = 0
        self._headers: list[Header] = []
        self._length: bytes | None = None
        self._coded = False
        self._pieces: list[bytes] = []
        self._head_delivered = False
        self._complete = False
        self._keep = False
        self._fed = 0

    def take(self, head: bytes, body: bytes, conversation: Conversation, mute: bool) -> bool:
        """Send a request; its response goes to `conversation`. `head` is without the empty line at its end. Returns
        False if the connection is lost: then nothing was sent. `mute`: the response has no body, whatever its head
        says."""
        if self._transport.is_closing():
            return False
        self._conversation = conversation
        self._mute = mute
        self._last_activity = now = self._clock()
        if self._state is not None and now - self._renewed > RENEWED:
            self._statement, self._renewed = self._state(), now
        if len(body) <= _JOINED:
            self._transport.write(b"%b%b\r\n%b" % (head, self._statement, body))
        else:
            # A body that is written by itself is not copied: it counts once, and may be held until it is sent.
            self._transport.write(b"%b%b\r\n" % (head, self._statement))
            self._transport.write(body)
        return True

    def introduce(self, state: Callable[[], bytes], idle: list[NodeConnection]) -> bool:
        """Let each request carry the line that `state` makes, and let the connection join the list `idle` when it is.
        Returns False if the response before has not ended, or the connection is lost."""
        if self._conversation is not None or self._transport.is_closing():
            return False
        self._state, self._renewed, self.idle = state, -math.inf, idle
        return True

    # Called by the conversation, until `done` or `failed`: then another one may use the connection.

    def abort(self) -> None:
        """Close the connection; the conversation gets no further call."""
        if self._conversation is not None:
            self._conversation = None
            self._transport.abort()

    def pause(self) -> None:
        """Stop reading until `resume`."""
        if self._conversation is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Continue reading."""
        if self._paused:
            self._paused = False
            self._last_activity = self._clock()
            if not self._transport.is_closing():
                self._transport.resume_reading()

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._last_activity = self._clock()
        self._all.open.add(self)

    def data_received(self, data: bytes) -> None:
        if self._conversation is None:
            self._transport.abort()
            return
        self._last_activity = self._clock()
        fresh = not self._fed
        if fresh and not self._mute and (found := self._repeated.find(data)) is not None:
            head, body, _ = found
            self._finish_repeated(head, body)
            return
        self._fed += len(data)
        sound = True
        try:
            self._parser.feed_data(data)
        except HttpParserError:
            sound = False
        if self._complete:
            self._finish(self._keep and sound, data if fresh else None)
        elif not sound:
            self._fail(LinkFailure.BROKEN)
        elif self._status:
            self._deliver()
        elif self._fed > MAX_HEAD:
            self._fail(LinkFailure.BROKEN)

    def eof_received(self) -> None:
        if self._conversation is None:
            return
        if self._status and not self._coded and self._length is None:
            self._finish(False)
        else:
            self._fail(LinkFailure.BROKEN)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.open.discard(self)
        if self in self.idle:
            self.idle.remove(self)
        del self._parser  # it holds this connection in turn
        self._fail(LinkFailure.BROKEN)

    def sweep(self, now: float) -> None:
        """Close the connection if the node is silent or the connection idle for too long. `now` is in seconds on the
        loop's clock."""
        if self._conversation is None:
            if now - self._last_activity > IDLE:
                self._transport.abort()
        elif not self._paused and now - self._last_activity > self._all.timeout:
            self._fail(LinkFailure.SILENT)
        elif not self._head_delivered and self._conversation.abandons():
            self._fail(LinkFailure.ABANDONED)

    def close(self) -> None:
        """Close the connection; a response under way fails as BROKEN."""
        self._fail(LinkFailure.BROKEN)
        self._transport.abort()

    # Called by the parser.

    def on_message_begin(self) -> None:
        if self._complete:
            raise ValueError("a second response")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._status:
            return  # a trailer
        name = name.lower()
        if name == _LENGTH:
            self._length = value
            return
        if name == _CODED:
            self._coded = True
            if value.strip().lower() != b"chunked":
                raise ValueError("a transfer coding that wasn't asked for")
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 100 or status == 101 or status > 999:
            raise ValueError("no final status")
        if status < 200:
            self._headers, self._length, self._coded = [], None, False
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

    # Private.

    def _deliver(self) -> None:
        conversation = self._conversation
        pieces, self._pieces = self._pieces, []
        if conversation is not None and not self._head_delivered:
            self._head_delivered = True
            conversation.began(ResponseHead(self._status, self._headers), self._length)
        if self._conversation is not None:
            self._conversation.data(b"".join(pieces))

    def _finish(self, reusable: bool, read: bytes | None = None) -> None:
        """Deliver the rest of a complete response. `read`: all of it, if it came in one read."""
        conversation, begun, length, pieces = self._conversation, self._head_delivered, self._length, self._pieces
        head = ResponseHead(self._status, self._headers)
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._conversation = None
        self._doubt(head.status)
        if reusable:
            if read is not None and self._is_plain():
                self._repeated.keep(read, b"HTTP/1.1 %d" % head.status, len(body), head)
            self._reset()
        self._free(reusable)
        if conversation is not None:
            if not begun:
                conversation.began(head, length)
            conversation.done(body)

    def _finish_repeated(self, head: ResponseHead, body: bytes) -> None:
        """Deliver a response whose head was read before, and whose connection stays open therefore."""
        conversation, self._conversation = self._conversation, None
        self._doubt(head.status)
        self._free(True)
        if conversation is not None:
            conversation.began(head, b"%d" % len(body))
            conversation.done(body)

    def _doubt(self, status: int) -> None:
        """State anew after a 403: the node may have judged the statement as old, since the store's clock was set."""
        if status == 403:
            self._renewed = -math.inf

    def _free(self, reusable: bool) -> None:
        """Make the connection idle after a complete response, or close it."""
        if reusable and not self._all.closed:
            self.resume()
            self.idle.append(self)
        else:
            self._transport.abort()

    def _is_plain(self) -> bool:
        """Whether a response that left the connection open has a length, and a body of that length."""
        return self._length is not None and not self._coded and self._status not in _BODILESS

    def _fail(self, why: LinkFailure) -> None:
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            self._transport.abort()
            conversation.failed(why)
