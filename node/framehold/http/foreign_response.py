"""One POST whose response others may write: what becomes of it when this process ends. The SDK writes the responses to
2025-era clients; a middleware of the author may write any response that passes through it.

The HTTP server cuts off what it still serves. By itself it would reply 500 without a word, or break the stream off.

    1. the response has not begun: status 503 with Retry-After, and a JSON-RPC error
    2. it is an event stream: the error is its last event; its data has `retryAfter`
    3. any other response that has begun is broken off: nothing can be added to it
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from mcp.shared.exceptions import MCPError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..engine.runtime import Runtime
from ..sdk.replies import cut_off
from .exchange import JSON, as_event, as_json, retryable


class _Named(msgspec.Struct, gc=False):
    id: int | str | None = None


_decode = msgspec.json.Decoder(_Named).decode


class ForeignResponse:
    """The response to one request. `receive` and `send` are those of the HTTP server; `error` makes the reply to a
    request that this process cuts off."""

    def __init__(self, receive: Receive, send: Send, error: Callable[[], MCPError]) -> None:
        self._receive, self._send, self._error = receive, send, error
        self._body: list[bytes] = []
        self._id: int | str | None = None
        self._begun = self._streams = self._ended = False

    async def serve(self, app: ASGIApp, scope: Scope, retry_after: int) -> None:
        """Serve the request by `app`. If this process cuts it off, the client may come again after `retry_after`
        seconds."""
        try:
            await app(scope, self._read, self._write)
        except asyncio.CancelledError:
            await self._cut_off(retry_after)
            raise
        if self._begun and not self._ended:
            # An event stream of the SDK has noticed that the process ends, and has left its response as it is.
            await self._cut_off(retry_after)

    async def _read(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._body.append(message.get("body", b""))
            if not message.get("more_body", False):
                self._id, self._body = _id_in(b"".join(self._body)), []
        elif message["type"] == "http.disconnect":
            self._ended = True
        return message

    async def _write(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begun = True
            headers = list(message.get("headers", ()))
            message = {**message, "headers": headers}
            self._streams = dict(headers).get(b"content-type", b"").startswith(b"text/event-stream")
        elif message["type"] == "http.response.body":
            self._ended = not message.get("more_body", False)
        await self._send(message)

    async def _cut_off(self, retry_after: int) -> None:
        """Reply with an error, if the response can still have one and the client has not left."""
        error = retryable(self._error().error.model_dump(exclude_none=True), retry_after)
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": self._id, "error": error}
        if self._ended:
            return
        if not self._begun:
            body = as_json(message)
            headers = [JSON, (b"content-length", b"%d" % len(body)), (b"retry-after", b"%d" % retry_after)]
            await self._send({"type": "http.response.start", "status": 503, "headers": headers})
            await self._send({"type": "http.response.body", "body": body})
        elif self._streams:
            await self._send({"type": "http.response.body", "body": as_event(message), "more_body": False})


class Outside:
    """What stands round middlewares of the author. A time limit of theirs cancels a request as the end of this process
    does: only a cancellation that has passed through them all is the end."""

    def __init__(self, app: ASGIApp, runtime: Runtime) -> None:
        self._app, self._runtime = app, runtime

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        await ForeignResponse(receive, send, cut_off).serve(self._app, scope, self._runtime.retry_after)


def _id_in(body: bytes) -> int | str | None:
    """The id of the JSON-RPC request in `body`; None if there is none."""
    try:
        return _decode(body).id
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
