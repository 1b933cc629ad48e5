"""One HTTP request, and the interfaces between the client's side and the handler.

    client -> HttpServer -> handle(request, reply)         reply.begin, write, end, abort -> client
                       reply.listener <- gone, pause, resume

All calls happen on one event loop, as plain callbacks: a request needs no task and no future.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from .request_head import RequestHead


class Request(NamedTuple):
    """A complete request. `call` is the value of the header CALL_ID, which is not among the headers of `head`."""

    head: RequestHead
    body: bytes
    call: bytes = b""


class Listener(Protocol):
    """Receives events of the client while a response is written."""

    def gone(self) -> None:
        """Called when the client has left: at most once, and never after the end of the response."""

    def pause(self) -> None:
        """Called when the client reads too slowly: write nothing until `resume`."""

    def resume(self) -> None:
        """Called after `pause`, when the client has read enough."""


class ResponseWriter(Protocol):
    """Writes one response. After the end of the response, and after the client has left, its methods do nothing."""

    listener: Listener | None

    def begin(self, status: int, lines: bytes, length: bytes | None) -> None:
        """Hold the head until the first `write` or `end`: the status, the lines of the headers (no hop-by-hop ones, no
        length), and the length of the body, None if it is not known."""

    def write(self, data: bytes) -> None:
        """Send a piece of the body now. An empty piece sends the head alone."""

    def end(self, data: bytes = b"") -> None:
        """Send the last piece. If a length was announced, all pieces together must have that length."""

    def abort(self) -> None:
        """Break the connection, so that the client sees that the response is not whole."""


Handle = Callable[[Request, ResponseWriter], None]
"""Handles a request: writes its response to the reply, now or later."""
