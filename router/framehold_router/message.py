"""One HTTP request as a router handles it, where it may be sent, and who talks to whom about it.

    client -> Front -> handle(request, reply)         reply.begin, write, end, abort -> client
                       reply.listener <- gone, pause, resume

All of it happens on one event loop, in plain callbacks: a request costs no task and no future.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from .internal import Header

Address = tuple[str, int] | str
"""A host and a port, or the path of a Unix socket."""


class Request(NamedTuple):
    """A whole request. Names of headers are in lower case, values as they came; `peer` is the client's address."""

    method: bytes
    target: bytes
    headers: list[Header]
    body: bytes
    peer: str


class Listener(Protocol):
    """Hears what becomes of the client while it is being answered."""

    def gone(self) -> None:
        """The client left. Said once at most, and never after the answer's end."""

    def pause(self) -> None:
        """The client reads more slowly than it is sent to: write no more until `resume`."""

    def resume(self) -> None:
        """It caught up."""


class Reply(Protocol):
    """Writes one response. After its end, and when the client is gone, every method does nothing."""

    listener: Listener | None

    def begin(self, status: int, headers: Sequence[Header]) -> None:
        """Hold status and headers (names in lower case, no hop-by-hop ones) until the first `write` or `end`."""

    def write(self, data: bytes) -> None:
        """Send a piece of the body now; an empty one sends what is held."""

    def end(self, data: bytes = b"") -> None:
        """Send the last piece. Where a content-length was announced, the pieces add up to it."""

    def abort(self) -> None:
        """Break the connection, so that the client sees that the response is not whole."""


Handle = Callable[[Request, Reply], None]
"""Answers a request, now or later."""
