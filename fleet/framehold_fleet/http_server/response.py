"""The response to one request, framed for the HTTP version of the client.

The law: a client can tell a whole response from a broken one. A body has the announced content-length, or is chunked,
or (for HTTP/1.0) ends with the connection. A body that breaks off gets neither its full length nor its last chunk, and
its connection is reset. Head and body are sent in one write if both are there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol

from .message import Listener, Request

_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


def plain(status: int, text: str) -> bytes:
    """The bytes of a whole response with one line of text, after which the connection closes."""
    body = text.encode() + b"\n"
    retry = b"retry-after: 1\r\n" if status == 503 else b""
    head = b"%bcontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n%bconnection: close\r\n\r\n"
    return head % (_LINES[status], len(body), retry) + body


class ResponseSink(Protocol):
    """Where a response sends its bytes: a `client_connection.Connection`. It is a Protocol because that module imports
    this one."""

    def answered(self) -> None:
        """Called when the head of the response is known: the request will not be sent again, and is not held."""

    def send(self, data: bytes) -> None: ...

    def ended(self, keep_alive: bool) -> None:
        """Called when the response is complete. Without `keep_alive` the connection must close."""

    def broken(self) -> None:
        """Called when the response will never be complete: the connection is reset."""

    @property
    def closing(self) -> bool:
        """Whether the connection closes after this response, even if the client wants to keep it."""

    @property
    def transport(self) -> asyncio.Transport: ...


class Response:
    """Writes one response to a connection. After its end, and after the client has left, its methods do nothing.
    `version` is that of the client's HTTP; `is_mute` says whether the response has no body, whatever is written."""

    __slots__ = ("_chunked", "_head", "_keep_alive", "_sink", "is_mute", "listener", "version")

    def __init__(self, out: ResponseSink, method: bytes, version: str, keep_alive: bool) -> None:
        self.listener: Listener | None = None
        self._sink: ResponseSink | None = out
        self.version = version
        self._keep_alive = keep_alive
        self.is_mute = method == b"HEAD"
        self._chunked = False
        self._head = b""

    @property
    def transport(self) -> asyncio.Transport:
        """The transport of the connection. Asked before the response ends."""
        assert self._sink is not None, "the response has ended"
        return self._sink.transport

    def close_after(self) -> None:
        """Close the connection after this response, whatever the client wants. Called before `begin`."""
        self._keep_alive = False

    def begin(self, status: int, lines: bytes, length: bytes | None) -> None:
        """Hold the head until the first `write` or `end`: the status, the lines of the headers (no hop-by-hop ones, no
        length), and the length of the body, None if it is not known."""
        if self._sink is None:
            return
        self._sink.answered()
        framing = b""
        if status == 204 or status == 304:
            self.is_mute = True
        if length is not None:
            if status != 204:
                framing = b"content-length: %b\r\n" % length
        elif not self.is_mute:
            if self.version == "1.1":
                self._chunked = True
                framing = b"transfer-encoding: chunked\r\n"
            else:
                self._keep_alive = False
        if not self._keep_alive or self._sink.closing:
            self._keep_alive = False
            framing += b"connection: close\r\n"
        elif self.version != "1.1":
            framing += b"connection: keep-alive\r\n"
        line = _LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
        self._head = b"%b%b%b\r\n" % (line, lines, framing)

    def write(self, data: bytes) -> None:
        """Send a piece of the body now; an empty one sends the head alone."""
        out = self._sink
        if out is None:
            return
        if self.is_mute:
            data = b""
        elif self._chunked and data:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if self._head:
            data = self._head + data
            self._head = b""
        if data:
            out.send(data)

    def end(self, data: bytes = b"") -> None:
        """Send the last piece, and let the connection continue with the next request. If a length was announced, all
        pieces together must have that length."""
        out = self._sink
        if out is None:
            return
        if self.is_mute:
            data = b""
        elif self._chunked:
            data = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
        if self._head:
            data = self._head + data
        # Before the send: events of the client during it no longer concern this response.
        self.listener = self._sink = None
        if data:
            out.send(data)
        out.ended(self._keep_alive)

    def abort(self) -> None:
        """Break the connection, so that the client sees that the response is not whole."""
        out = self._sink
        self.listener = self._sink = None
        if out is not None:
            out.broken()

    def lost(self) -> None:
        """Called when the client is gone: report it to the listener, once."""
        listener = self.listener
        self.listener = self._sink = None
        if listener is not None:
            listener.gone()


Handle = Callable[[Request, Response], None]
"""Handles a request: writes its response, now or later."""
