"""One HTTP request of 2026-07-28 and its response: JSON if the handler sends nothing before its result, else an event
stream.

    1. the handler sends a notification, or 15 s of silence go by: status 200 and `text/event-stream` are sent, and
       from then on pings keep the stream alive
    2. otherwise the response is plain JSON, with the status that the protocol's table gives its error
    3. the client disconnects: the request is cancelled (closing the response stream is the protocol's cancellation)

Fast rounds pay neither for pings nor for the disconnect watch (`watches`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextvars import Context
from typing import Any

import anyio
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import INTERNAL_ERROR, ErrorData, RequestId
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from .. import json_text

PING = 15.0
"""Seconds of silence after which an event stream is opened, and kept open."""

JSON = (b"content-type", b"application/json")
_STREAM = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class Exchange:
    """The SDK's `DispatchContext` for one request, and the writer of its response."""

    can_send_request = False

    def __init__(
        self, scope: Scope, receive: Receive, request_id: RequestId, progress_token: str | int | None, send: Send
    ) -> None:
        self.scope, self.receive, self.request_id = scope, receive, request_id
        self._send, self._progress_token = send, progress_token
        self._request: Request | None = None
        self._streaming = self._replied = False
        self.closed = False
        """Whether nothing more is sent. It is false from the beginning of each pass through the kernel to its end."""
        self.left = False
        """Whether the client has disconnected, and the request was cancelled for it."""
        self._lock: asyncio.Lock | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def request(self) -> Request:
        """The HTTP request, for handlers. It is made only when it is read."""
        if self._request is None:
            self._request = Request(self.scope, self.receive)
        return self._request

    @property
    def transport(self) -> TransportContext:
        """The transport, for the SDK's own `Context`. It is made only when it is read."""
        return TransportContext(kind="streamable-http", can_send_request=False, headers=self.request.headers)

    @property
    def message_metadata(self) -> ServerMessageMetadata:
        """The HTTP request, for the SDK's runner. It is made only when it is read."""
        return ServerMessageMetadata(request_context=self.request)

    @property
    def cancel_requested(self) -> anyio.Event:
        """Never set: a client of this revision cancels by leaving, which cancels the request's task."""
        return anyio.Event()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Refuse: a server of this revision has no channel back."""
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Send a notification on the response, which becomes an event stream."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = dict(params)
        await self._send_event(as_event(message))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress, if the request asked for it."""
        if self._progress_token is None:
            return
        params: dict[str, Any] = {"progressToken": self._progress_token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        await self.notify("notifications/progress", params)

    def watch(self, cancel: Callable[[], object], receive: Receive, variables: Context) -> None:
        """Cancel the request by `cancel` when the client disconnects, and send pings while the stream is silent.
        `receive` and `send` run with the context variables of the request, `variables`. `close` ends this."""
        watch = self._watch_client(cancel, receive, variables)
        # A timer that was cancelled keeps its context until it would have been due.
        self._watch = asyncio.get_running_loop().create_task(watch, name="framehold-watch", context=Context())

    async def _watch_client(self, cancel: Callable[[], object], receive: Receive, variables: Context) -> None:
        async def received() -> Message:
            return await receive()

        create_task = asyncio.get_running_loop().create_task
        receiving = create_task(received(), context=variables)
        try:
            while True:
                done, _ = await asyncio.wait([receiving], timeout=PING)
                if not done:
                    await create_task(self._send_event(b": ping\r\n\r\n"), context=variables)
                elif receiving.result()["type"] == "http.disconnect":
                    self.left = True
                    cancel()
                    return
                else:
                    receiving = create_task(received(), context=variables)
        finally:
            receiving.cancel()

    async def _send_event(self, event: bytes) -> None:
        """Send an event; the first one also sends status and headers."""
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            if self.closed:
                return
            if not self._streaming:
                self._streaming = True
                await self._send({"type": "http.response.start", "status": 200, "headers": _STREAM})
            await self._send({"type": "http.response.body", "body": event, "more_body": True})

    @property
    def streaming(self) -> bool:
        """Whether status and headers of an event stream were sent. Then only events may follow."""
        return self._streaming

    def onward(self) -> Send:
        """The `send` for another node's response to this request: the client gets it as it comes, or as the rest of
        an event stream that began here."""
        return StreamRest(self._send, self.request_id) if self._streaming else self._pass_on

    async def _pass_on(self, message: Message) -> None:
        self._replied = True
        await self._send(message)

    def close(self) -> None:
        """Send nothing more, and end the watch."""
        self.closed = True
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    async def result(self, result: dict[str, Any]) -> None:
        """Reply with a result."""
        await self._finish({"jsonrpc": "2.0", "id": self.request_id, "result": result}, 200, None)

    async def error(self, error: ErrorData, retry_after: int | None = None) -> None:
        """Reply with an error; `retry_after` (seconds) makes it a 503. In an event stream, whose status was sent
        before, the data of the error says so."""
        status = ERROR_CODE_HTTP_STATUS.get(error.code, 200) if retry_after is None else 503
        body = error.model_dump(by_alias=True, mode="json", exclude_none=True)
        await self._finish({"jsonrpc": "2.0", "id": self.request_id, "error": body}, status, retry_after)

    async def cut_off(self, error: ErrorData, retry_after: int) -> None:
        """Reply with an error if no reply was begun."""
        if not self._replied:
            await self.error(error, retry_after)

    async def _finish(self, message: dict[str, Any], status: int, retry_after: int | None) -> None:
        self._replied = True
        if self._streaming:
            if retry_after is not None:
                message["error"] = retryable(message["error"], retry_after)
            assert self._lock is not None
            async with self._lock:
                self.close()
                await self._send({"type": "http.response.body", "body": as_event(message), "more_body": False})
            return
        await self.send_json(as_json(message), status, retry_after)

    async def send_json(self, body: bytes, status: int = 200, retry_after: int | None = None) -> None:
        """Send a JSON-RPC message as the whole response."""
        self._replied = True
        self.close()
        headers = [JSON, (b"content-length", b"%d" % len(body))]
        if retry_after is not None:
            headers.append((b"retry-after", b"%d" % retry_after))
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


class StreamRest:
    """A `send` that appends another node's response to an event stream which began here. Events are passed on, a JSON
    body becomes one event, and any other response becomes an event with an error."""

    def __init__(self, send: Send, request_id: RequestId) -> None:
        self._send, self._request_id = send, request_id
        self._content_type, self._status, self._retry_after = b"", 0, b""
        self._body: list[bytes] = []

    async def __call__(self, message: Message) -> None:
        """Take one ASGI message of the other node's response."""
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            self._status, self._retry_after = message["status"], headers.get(b"retry-after", b"")
            self._content_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if self._content_type != b"text/event-stream":
            self._body.append(body)
            if more:
                return
            body = as_event(self._message())
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    def _message(self) -> dict[str, Any]:
        """The JSON-RPC message of the other node's response; an error where the response has none."""
        try:
            found: Any = json.loads(b"".join(self._body)) if self._content_type == b"application/json" else None
        except ValueError:
            found = None
        if isinstance(found, dict):
            error = found.get("error")
            if isinstance(error, dict) and self._retry_after.isdigit():
                return {**found, "error": retryable(error, int(self._retry_after[:4]))}
            return found
        text = f"the node that holds this call answered with status {self._status} and no message; retry, or ask it"
        return {"jsonrpc": "2.0", "id": self._request_id, "error": {"code": INTERNAL_ERROR, "message": text}}


def retryable(error: dict[str, Any], retry_after: int) -> dict[str, Any]:
    """An error in an event stream with what status 503 and the header Retry-After would say: the same request may
    succeed in `retry_after` seconds."""
    data = error.get("data")
    return {**error, "data": {**(data if isinstance(data, dict) else {}), "retryAfter": retry_after}}


def as_json(message: dict[str, Any]) -> bytes:
    """A JSON-RPC message as JSON."""
    return json_text.write_finite(message)


def as_event(message: dict[str, Any]) -> bytes:
    """A JSON-RPC message as an event of an event stream."""
    return b"event: message\r\ndata: " + as_json(message) + b"\r\n\r\n"
