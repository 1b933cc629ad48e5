"""One HTTP request as a router handles it, and where it may be sent."""

from __future__ import annotations

from typing import NamedTuple

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
