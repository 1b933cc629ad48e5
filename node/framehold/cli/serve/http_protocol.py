"""uvicorn's HTTP/1.1 protocol, which also serves requests that offer another protocol (`Upgrade: h2c`).

The HTTP client of the JDK sends such an offer with each request. A server that does not take it serves the request as
if nothing was offered (RFC 9110, section 7.8). httptools stops behind the headers of such a request, so its body would
be lost: here another parser reads it.
"""

from __future__ import annotations

import sys

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_FRAMING = (b"content-length", b"transfer-encoding")
"""The headers that say where a body ends."""


class HttpProtocol(HttpToolsProtocol):
    """One connection."""

    _latest = b""
    """What was received last."""
    _is_resuming = False
    """Whether a parser reads the head that stands for one which was read already."""

    def _should_upgrade(self) -> bool:
        """Whether the request opens a WebSocket; only a GET does (RFC 6455, section 4.1)."""
        return bool(self.scope["method"] == "GET" and super()._should_upgrade())

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        self._latest = data
        super().data_received(data)

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
        finally:
            self._is_resuming = False
        if rest:
            self.data_received(rest)

    def on_message_begin(self) -> None:
        """A request begins."""
        if not self._is_resuming:
            super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A piece of the request's target."""
        if not self._is_resuming:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of the request."""
        if not self._is_resuming:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head of the request ends."""
        if not self._is_resuming:
            super().on_headers_complete()
