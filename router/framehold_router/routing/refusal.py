"""The errors with which the router itself answers a complete request."""

from __future__ import annotations

import msgspec

from framehold_fleet.http_server.message import Request
from framehold_fleet.http_server.request_head import MCP
from framehold_fleet.http_server.response import Response


class _RequestId(msgspec.Struct):
    id: int | str | float | None = None


def refuse(request: Request, reply: Response, status: int, message: str) -> None:
    """Answer a request with an error of the router itself: a JSON-RPC error if the target is MCP's, else a line of
    text."""
    if request.head.target.partition(b"?")[0] == MCP:
        try:
            request_id = msgspec.json.decode(request.body, type=_RequestId).id
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            request_id = None
        kind = b"application/json"
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": {"code": -32603, "message": message}})
    else:
        kind, body = b"text/plain; charset=utf-8", message.encode() + b"\n"
    retry = b"retry-after: 1\r\n" if status == 503 else b""
    reply.begin(status, b"content-type: %b\r\n%b" % (kind, retry), b"%d" % len(body))
    reply.end(body)
