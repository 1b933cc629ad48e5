"""The response to one request, framed for the client that asked.

The law: a client can tell a whole response from a broken one. A body has the content-length that it was announced with,
or is chunked, or - where the client speaks HTTP/1.0 - ends with the connection; one that breaks off never gets the end
that it would have had. Head and body leave in one write where both are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Protocol

from .internal import Header
from .message import Listener

_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_LENGTH = b"content-length"


def plain(status: int, text: str) -> bytes:
    """The whole response to what isn't served: a line of text, and the connection's end."""
    body = text.encode() + b"\n"
    retry = b"retry-after: 1\r\n" if status == 503 else b""
    head = b"%bcontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n%bconnection: close\r\n\r\n"
    return head % (_LINES[status], len(body), retry) + body


class Exit(Protocol):
    """The connection, as a response sees it."""

    def send(self, data: bytes) -> None: ...

    def ended(self, keep_alive: bool) -> None:
        """The response is complete. Without `keep_alive`, no other may follow it."""

    def broken(self) -> None:
        """The response will never be complete."""

    @property
    def closing(self) -> bool:
        """This response is the connection's last, whatever the client wants."""


class Response:
    """A Reply over a connection."""

    __slots__ = ("_chunked", "_exit", "_head", "_keep_alive", "_mute", "_version", "listener")

    def __init__(self, out: Exit, method: bytes, version: str, keep_alive: bool) -> None:
        self.listener: Listener | None = None
        self._exit: Exit | None = out
        self._version = version
        self._keep_alive = keep_alive
        self._mute = method == b"HEAD"
        self._chunked = False
        self._head = b""

    def begin(self, status: int, headers: Sequence[Header]) -> None:
        """Hold status and headers until there is something to send them with."""
        if self._exit is None:
            return
        parts = [_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
        sized = False
        for name, value in headers:
            if name == _LENGTH:
                sized = True
                if status == 204:
                    continue
            parts += (name, b": ", value, b"\r\n")
        if status == 204 or status == 304:
            self._mute = True
        elif not sized and not self._mute:
            if self._version == "1.1":
                self._chunked = True
                parts.append(b"transfer-encoding: chunked\r\n")
            else:
                self._keep_alive = False
        if not self._keep_alive or self._exit.closing:
            self._keep_alive = False
            parts.append(b"connection: close\r\n")
        elif self._version != "1.1":
            parts.append(b"connection: keep-alive\r\n")
        parts.append(b"\r\n")
        self._head = b"".join(parts)

    def write(self, data: bytes) -> None:
        """Send a piece of the body now; an empty one sends the head alone."""
        out = self._exit
        if out is None:
            return
        if self._mute:
            data = b""
        elif self._chunked and data:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if self._head:
            data = self._head + data
            self._head = b""
        if data:
            out.send(data)

    def end(self, data: bytes = b"") -> None:
        """Send the last piece, and let the connection go on to the next request."""
        out = self._exit
        if out is None:
            return
        if self._mute:
            data = b""
        elif self._chunked:
            data = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
        if self._head:
            data = self._head + data
        # First of all: what is heard from the client while this is sent is no longer about this response.
        self.listener = self._exit = None
        if data:
            out.send(data)
        out.ended(self._keep_alive)

    def abort(self) -> None:
        """Break the connection."""
        out = self._exit
        self.listener = self._exit = None
        if out is not None:
            out.broken()

    def lost(self) -> None:
        """The client is gone: say so, once."""
        listener = self.listener
        self.listener = self._exit = None
        if listener is not None:
            listener.gone()
