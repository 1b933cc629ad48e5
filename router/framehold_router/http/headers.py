"""The headers of relayed messages: the head that a node gets, and the headers that a client gets back.

The law: the values and the order of headers are kept byte for byte. Hop-by-hop headers are dropped; internal headers of
the fleet are neither accepted from a client nor sent to one; the length of a body is sent once.

For most names the decision depends on the name alone. It is made by `end_to_end` and cached in a table. The few names
whose value matters are handled one by one.
"""

from __future__ import annotations

import posixpath
from urllib.parse import unquote_to_bytes

import msgspec

from ..fleet.trust import CODE, NODE, PREFIX, ROUTE, Header, end_to_end
from .message import Reply, Request

MCP = b"/mcp"

_BODIED = frozenset((b"POST", b"PUT", b"PATCH"))
_FORWARDED = b"x-forwarded-for"
_LENGTH = b"content-length"
_CONNECTION = b"connection"
_NAMES_NOTHING = frozenset((b"keep-alive", b"close"))
_MAX_CACHED_NAMES = 1024


class _Passes(dict[bytes, bool]):
    """Maps the name of a header to whether it is relayed, whatever its value. Clients choose the names, so the table
    has a limit."""

    def __missing__(self, name: bytes) -> bool:
        passes = name != _FORWARDED and not name.startswith(PREFIX) and bool(end_to_end([(name, b"")]))
        if len(self) < _MAX_CACHED_NAMES:
            self[name] = passes
        return passes


_passes = _Passes()


def first_segment(target: bytes) -> bytes:
    """The first segment of the path of a target, after percent-decoding and removal of `.` and `..`. For paths below
    `/api/v1` it is `dashboard`."""
    path = posixpath.normpath(unquote_to_bytes(target.partition(b"?")[0])).lstrip(b"/")
    first, _, rest = path.partition(b"/")
    if first == b"api" and rest.partition(b"/")[0] == b"v1":
        return b"dashboard"
    return first


def rebuilt(request: Request) -> tuple[bytes, list[Header]]:
    """The head of `request` for a node, without the empty line at its end; and the internal headers of the request,
    which are not in that head."""
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
    """The headers of a response that the client gets, and the node that served, None if they name none. `show_route`:
    whether the client also gets the headers that name the node, the route and kept code."""
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
        elif name in (ROUTE, CODE):
            if show_route:
                kept.append(item)
        elif name == _CONNECTION and value.lower() not in _NAMES_NOTHING:
            length = [item for item in headers if item[0] == _LENGTH]
            return passed_back(length + end_to_end(headers), show_route)
    return kept, served_by


class _Envelope(msgspec.Struct):
    id: int | str | float | None = None


def refuse(request: Request, reply: Reply, status: int, message: str) -> None:
    """Answer a request with an error of the router itself: a JSON-RPC error if the target is MCP's, else a line of
    text."""
    if request.target.partition(b"?")[0] == MCP:
        try:
            request_id = msgspec.json.decode(request.body, type=_Envelope).id
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            request_id = None
        kind = b"application/json"
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": {"code": -32603, "message": message}})
    else:
        kind, body = b"text/plain; charset=utf-8", message.encode() + b"\n"
    headers = [(b"content-type", kind), (_LENGTH, b"%d" % len(body))]
    if status == 503:
        headers.append((b"retry-after", b"1"))
    reply.begin(status, headers)
    reply.end(body)
