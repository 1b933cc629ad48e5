"""One HTTP request, and who hears of its client while the response is written.

    client -> HttpServer -> handle(request, reply)         reply.begin, write, end, abort -> client
                       reply.listener <- gone, pause, resume

All calls happen on one event loop, as plain callbacks: a request needs no task and no future.
"""

from __future__ import annotations

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
