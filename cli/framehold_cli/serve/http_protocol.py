"""uvicorn's HTTP/1.1 protocol, with a limit on heads, without trailers, and for requests that offer another protocol
(`Upgrade: h2c`).

uvicorn with httptools keeps a head of any size. Here its lines are counted as they come, and its bytes with each read:
no router lets more through.

uvicorn with httptools shows an application the trailers of a chunked body as headers. What stands before a node
removes the internal headers of a client from heads alone, so a trailer could pass for a header of the fleet (RFC 9110,
section 6.5.1, forbids to merge them). Here trailers are counted and dropped.

The HTTP client of the JDK sends such an offer with each request. A server that does not take it serves the request as
if nothing was offered (RFC 9110, section 7.8). httptools stops behind the headers of such a request, so its body would
be lost: here another parser reads it.
"""

from __future__ import annotations

import sys

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_LINES = 1000
"""Headers of a request, its trailers included."""
MAX_HEAD = (1024 + 64) * 1024
"""Bytes of a head, or between two pieces of a body: what a router lets through at most, and what the fleet adds."""
_TOO_LARGE = f"the head of the request has more than {MAX_LINES} headers or {MAX_HEAD} bytes; it was not read\n"
_FRAMING = (b"content-length", b"transfer-encoding")
"""The headers that say where a body ends."""


class HttpProtocol(HttpToolsProtocol):
    """One connection."""

    _latest = b""
    """What was received last."""
    _is_resuming = False
    """Whether a parser reads the head that stands for one which was read already."""
    _is_incomplete = False
    """Whether a part of a request has come."""
    _fed = 0
    """Bytes since the request began, or since the last piece of its body."""
    _is_too_large = False
    _trailers = -1
    """Trailers so far; negative within a head."""

    def _should_upgrade(self) -> bool:
        """Whether the request opens a WebSocket; only a GET does (RFC 6455, section 4.1)."""
        return bool(self.scope["method"] == "GET" and super()._should_upgrade())

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        self._latest = data
        super().data_received(data)
        if self._is_incomplete:
            self._fed += len(data)
            if self._fed > MAX_HEAD and not self.transport.is_closing():
                self._is_too_large = True
                self.send_400_response(_TOO_LARGE)

    def send_400_response(self, msg: str) -> None:
        """Refuse what was received, and close the connection: 400, or 431 if a head is too large."""
        if not self._is_too_large:
            super().send_400_response(msg)
            return
        lines = ("HTTP/1.1 431 Request Header Fields Too Large", "content-type: text/plain; charset=utf-8")
        head = "\r\n".join((*lines, f"content-length: {len(_TOO_LARGE)}", "connection: close", "", ""))
        self.transport.write((head + _TOO_LARGE).encode())
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """An offer was parsed that is not taken. Called while httptools' exception is handled: it says where the head
        ended."""
        error = sys.exception()
        assert isinstance(error, httptools.HttpParserUpgrade), "uvicorn calls this where it has caught that"
        rest = self._latest[error.args[0] :]
        framing = [name + b": " + value + b"\r\n" for name, value in self.headers if name in _FRAMING]
        # The app's task has not begun: until then it can be said that the request has a body.
        self.cycle.more_body = bool(framing)
        self.parser = httptools.HttpRequestParser(self)
        self._is_resuming = True
        try:
            self.parser.feed_data(b"POST / HTTP/1.1\r\n" + b"".join(framing) + b"\r\n")
        except httptools.HttpParserError:
            # What offers another protocol may have a framing that no other request may have.
            self.send_400_response("Invalid HTTP request received.")
            return
        finally:
            self._is_resuming = False
        if rest:
            self.data_received(rest)

    def on_message_begin(self) -> None:
        """A request begins."""
        if not self._is_resuming:
            self._is_incomplete, self._fed, self._trailers = True, 0, -1
            super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A piece of the request's target."""
        if not self._is_resuming:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of the request, or a trailer."""
        if self._is_resuming:
            return
        if len(self.headers) + max(0, self._trailers) >= MAX_LINES:
            self._is_too_large = True
            raise ValueError(_TOO_LARGE)
        if self._trailers < 0:
            super().on_header(name, value)
        else:
            self._trailers += 1

    def on_headers_complete(self) -> None:
        """The head of the request ends."""
        self._trailers = 0
        if not self._is_resuming:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the request's body."""
        self._fed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request ends."""
        self._is_incomplete = False
        super().on_message_complete()
