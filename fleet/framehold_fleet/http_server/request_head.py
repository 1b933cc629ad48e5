"""The head of a request: its parts, and what a router relays of it.

The law: the values and the order of headers are kept byte for byte. Hop-by-hop headers are dropped; internal headers of
the fleet are neither accepted from a client nor sent to one; the length of a body is sent once, behind the headers. The
only header with addresses of clients is X-Forwarded-For, to which the router appends the address that it sees.

A client sends most of its heads again and again. So everything that is derived from a head is kept with it, and a head
that is repeated (`repeated.py`) is the same object.

For most names the decision depends on the name alone. It is made by `end_to_end` and cached in a table. The few names
whose value matters are handled one by one.
"""

from __future__ import annotations

import posixpath
from typing import Any
from urllib.parse import unquote_to_bytes

from ..headers import PREFIX, Header, end_to_end

MCP = b"/mcp"
_FORWARDED = b"x-forwarded-for"
_OTHER_ADDRESSES = frozenset((b"forwarded", b"x-real-ip"))
"""Further headers with the address of a client. Relayed, they would be what the client wrote; X-Forwarded-For ends with
what the router saw."""
CONNECTION = b"connection"
NAMES_NOTHING = frozenset((b"keep-alive", b"close"))
"""Values of `Connection` that name no header."""
_MAX_CACHED_NAMES = 1024


class _Passes(dict[bytes, bool]):
    """Maps the name of a header to whether it is relayed, whatever its value. Clients choose the names, so the table
    has a limit."""

    def __missing__(self, name: bytes) -> bool:
        dropped = name == _FORWARDED or name in _OTHER_ADDRESSES or name.startswith(PREFIX)
        passes = not dropped and bool(end_to_end([(name, b"")]))
        if len(self) < _MAX_CACHED_NAMES:
            self[name] = passes
        return passes


passes = _Passes()
"""Whether a header of this name is relayed, whatever its value."""


class RequestHead:
    """The head of a request. Names of `headers` are in lower case, values are unchanged; the length of the body is not
    among them. `peer` is the IP address of the client, empty on a Unix socket.

    `fields`: the values of the headers by name, of several with one name the last. `lines`: what a node gets of this
    head, without the length and the empty line at the end. `segment`: the first segment of the path (see
    `first_segment`). `kept`: what the handler has made of this head, for its next request; None at first."""

    __slots__ = ("fields", "headers", "kept", "lines", "method", "peer", "segment", "target")

    def __init__(self, method: bytes, target: bytes, headers: list[Header], peer: str) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.peer = peer
        self.kept: Any = None
        self.fields = dict(headers)
        self.segment = first_segment(target)
        self.lines = b"".join(self._relayed(headers))

    def _relayed(self, headers: list[Header]) -> list[bytes]:
        forwarded: list[bytes] = []
        parts = [self.method, b" ", self.target, b" HTTP/1.1\r\n"]
        for name, value in headers:
            if passes[name]:
                parts += (name, b": ", value, b"\r\n")
            elif name == CONNECTION:
                if value.lower() not in NAMES_NOTHING:
                    return self._relayed(end_to_end(headers))
            elif name == _FORWARDED:
                forwarded.append(value)
        if self.peer:
            forwarded.append(self.peer.encode())
        if forwarded:
            parts += (_FORWARDED, b": ", b", ".join(forwarded), b"\r\n")
        return parts


def first_segment(target: bytes) -> bytes:
    """The first segment of the path of a target, after percent-decoding and removal of `.` and `..`. For paths below
    `/api/v1` it is `dashboard`."""
    if target == MCP:
        return b"mcp"
    path = posixpath.normpath(unquote_to_bytes(target.partition(b"?")[0])).lstrip(b"/")
    first, _, rest = path.partition(b"/")
    if first == b"api" and rest.partition(b"/")[0] == b"v1":
        return b"dashboard"
    return first
