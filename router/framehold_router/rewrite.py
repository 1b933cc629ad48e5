"""What a message becomes on its way through: the head that a node reads, the headers that a client reads.

The law: values and order are kept byte for byte. What belongs to one connection stays behind, what only the fleet may
say is neither taken from a client nor shown to one, and the length of a body is said once.

Most names mean the same every time. Whether one passes is looked up in a table that fills itself, with what
`end_to_end` says of it; the few that don't are looked at one by one.
"""

from __future__ import annotations

import posixpath
from urllib.parse import unquote_to_bytes

import msgspec

from .internal import NODE, PREFIX, ROUTE, Header, end_to_end
from .message import Reply, Request

MCP = b"/mcp"

_BODIED = frozenset((b"POST", b"PUT", b"PATCH"))
_FORWARDED = b"x-forwarded-for"
_LENGTH = b"content-length"
_CONNECTION = b"connection"
_NAMES_NOTHING = frozenset((b"keep-alive", b"close"))
_KEPT_NAMES = 1024


class _Passes(dict[bytes, bool]):
    """Name of a header -> whether it passes whatever its value. Clients choose names, so it stops growing."""

    def __missing__(self, name: bytes) -> bool:
        passes = name != _FORWARDED and not name.startswith(PREFIX) and bool(end_to_end([(name, b"")]))
        if len(self) < _KEPT_NAMES:
            self[name] = passes
        return passes


_passes = _Passes()


def room(target: bytes) -> bytes:
    """The first part of the path, as a server may come to understand it; `api` with its version is the dashboard's."""
    path = posixpath.normpath(unquote_to_bytes(target.partition(b"?")[0])).lstrip(b"/")
    first, _, rest = path.partition(b"/")
    if first == b"api" and rest.partition(b"/")[0] == b"v1":
        return b"dashboard"
    return first


def rebuilt(request: Request) -> tuple[bytes, list[Header]]:
    """The head to send on, without its last line, and the internal headers that came with it."""
    method, target, headers, body, peer = request
    internal: list[Header] = []
    forwarded: list[bytes] = []
    parts = [method, b" ", target, b" HTTP/1.1\r\n"]
    for item in headers:
        name, value = item
        if _passes[name]:
            parts += (name, b": ", value, b"\r\n")
        elif name == _CONNECTION:
            if value.lower() not in _NAMES_NOTHING:
                return rebuilt(request._replace(headers=end_to_end(headers)))
        elif name == _FORWARDED:
            forwarded.append(value)
        elif name.startswith(PREFIX):
            internal.append(item)
    if peer:
        forwarded.append(peer.encode())
    if forwarded:
        parts += (_FORWARDED, b": ", b", ".join(forwarded), b"\r\n")
    if body or method in _BODIED:
        parts.append(b"content-length: %d\r\n" % len(body))
    return b"".join(parts), internal


def passed_back(headers: list[Header], show_route: bool) -> tuple[list[Header], str | None]:
    """What of a response's headers reaches the client, and the node that they name."""
    kept: list[Header] = []
    served_by: str | None = None
    for item in headers:
        name, value = item
        if _passes[name] or name == _LENGTH:
            kept.append(item)
        elif name == NODE:
            served_by = value.decode("latin-1")
            if show_route:
                kept.append(item)
        elif name == ROUTE:
            if show_route:
                kept.append(item)
        elif name == _CONNECTION and value.lower() not in _NAMES_NOTHING:
            length = [item for item in headers if item[0] == _LENGTH]
            return passed_back(length + end_to_end(headers), show_route)
    return kept, served_by


class _Envelope(msgspec.Struct):
    id: int | str | float | None = None


def refuse(request: Request, reply: Reply, status: int, message: str) -> None:
    """Answer in the router's own name: a JSON-RPC error where the request is for MCP, else a line of text."""
    if request.target.partition(b"?")[0] == MCP:
        try:
            asked = msgspec.json.decode(request.body, type=_Envelope).id
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            asked = None
        kind = b"application/json"
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": asked, "error": {"code": -32603, "message": message}})
    else:
        kind, body = b"text/plain; charset=utf-8", message.encode() + b"\n"
    headers = [(b"content-type", kind), (_LENGTH, b"%d" % len(body))]
    if status == 503:
        headers.append((b"retry-after", b"1"))
    reply.begin(status, headers)
    reply.end(body)
