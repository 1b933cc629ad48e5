"""The client's side of a call on 2026-07-28: the bytes of its two rounds, and a channel that carries them.

As the official client sends them (its headers, its `_meta` envelope), but it parses only what it needs: a
status, a body with a Content-Length or in chunks, and its JSON. Anything else, such as an event stream, is a
`CallError`.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any, cast

from framehold_loadtest.bench.tools import TOOL_NAME, expected_text

_VERSION = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": _VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "framehold-bench", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}, "url": {}}},
}
_HEAD = (
    b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:%d\r\naccept-encoding: gzip, deflate\r\nconnection: keep-alive\r\n"
    b"user-agent: framehold-bench\r\naccept: application/json, text/event-stream\r\n"
    b"content-type: application/json\r\nmcp-protocol-version: " + _VERSION.encode() + b"\r\n"
    b"mcp-method: tools/call\r\nmcp-name: " + TOOL_NAME.encode() + b"\r\n%bcontent-length: %d\r\n\r\n"
)
_BODY = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s"name":%s,"arguments":%s,"_meta":%s}}'
_LAST_CHUNK = b"\r\n0\r\n\r\n"  # JSON on one line holds no line break, so no body of ours ends so
_NAME_JSON = json.dumps(TOOL_NAME)
_META_JSON = json.dumps(_META, separators=(",", ":"))


class CallError(Exception):
    """The server's reply is not what the protocol and the tool promise; the message is its kind."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Question:
    """What round 1 returned: the keys to answer, and the token to echo."""

    keys: list[str]
    token: str


@dataclass(frozen=True, slots=True)
class Call:
    """One logical call: its argument, and the answer that its user will give."""

    number: int
    location: str
    units: str


def make_call(number: int) -> Call:
    """The call of that number; neighbours differ, so a mixed-up result is noticed."""
    return Call(number, f"city {number}", "CFK"[number % 3])


def first_round(port: int, call: Call) -> bytes:
    """The request that starts a call."""
    return _post(port, call, number=2 * call.number, extra="")


def second_round(port: int, call: Call, question: Question, mark: bytes = b"") -> bytes:
    """The retry that answers every question and echoes the token; `mark` names an additional header."""
    answer = {"action": "accept", "content": {"units": call.units}}
    answers = json.dumps(dict.fromkeys(question.keys, answer), separators=(",", ":"))
    extra = f'"inputResponses":{answers},"requestState":{json.dumps(question.token)},'
    return _post(port, call, number=2 * call.number + 1, extra=extra, mark=mark)


def get(port: int, target: str) -> bytes:
    """A GET request."""
    return f"GET {target} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n".encode()


def read_question(reply: Reply) -> Question:
    """The question of a reply.

    Raises:
        CallError: it asks nothing, or is an error.
    """
    result = _result(reply)
    if result.get("resultType") != "input_required":
        raise CallError("round 1 asked nothing")
    requests, token = result.get("inputRequests"), result.get("requestState")
    if not isinstance(requests, dict) or not requests or not isinstance(token, str):
        raise CallError("round 1 lacks questions or a token")
    return Question(list(requests), token)


def check_result(reply: Reply, call: Call) -> None:
    """Accept the right final result of a call, and nothing else.

    Raises:
        CallError: it is another one, or an error.
    """
    result = _result(reply)
    if result.get("resultType") != "complete" or result.get("isError"):
        raise CallError(f"round 2 is not a result: {str(result)[:120]}")
    if result.get("content") != [{"type": "text", "text": expected_text(call.location, call.units)}]:
        raise CallError("round 2 has a wrong result")


def _post(port: int, call: Call, *, number: int, extra: str, mark: bytes = b"") -> bytes:
    arguments = json.dumps({"location": call.location})
    body = (_BODY % (number, extra, _NAME_JSON, arguments, _META_JSON)).encode()
    header = mark + b": 1\r\n" if mark else b""
    return _HEAD % (port, header, len(body)) + body


def _result(reply: Reply) -> dict[str, Any]:
    try:
        message = json.loads(reply.body)
    except ValueError:
        raise CallError(f"HTTP {reply.status} without JSON") from None
    result = message.get("result") if isinstance(message, dict) else None
    if reply.status != 200 or not isinstance(result, dict):
        raise CallError(f"HTTP {reply.status}: {str(message)[:120]}")
    return result


def _joined(chunks: bytes) -> bytes:
    """The body in chunks that have all arrived."""
    parts = []
    while size := int(chunks[: (head := chunks.index(b"\r\n"))].partition(b";")[0], 16):
        parts.append(chunks[head + 2 : head + 2 + size])
        chunks = chunks[head + 4 + size :]
    return b"".join(parts)


class Channel(asyncio.Protocol):
    """One kept-alive connection, one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Reply] | None = None
        self._buffer = b""
        self._body_at = 0
        self._end = 0
        self._chunked = False

    @classmethod
    async def connect(cls, port: int) -> Channel:
        """A channel to a port of 127.0.0.1."""
        _, channel = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return channel

    async def request(self, data: bytes) -> Reply:
        """Send a request and return its response.

        Raises:
            ConnectionError: the server closed the connection.
            CallError: the response has neither a Content-Length nor chunks.
        """
        if self._transport is None:
            raise ConnectionResetError("the server closed the connection between two requests")
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return await self._waiter

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own class

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request that waits."""
        self._transport = None
        self._settle(exc or ConnectionResetError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        """Collect one response."""
        self._buffer = self._buffer + data if self._buffer else data
        if not self._end and not self._chunked:
            self._read_head()
        if self._chunked and self._buffer.endswith(_LAST_CHUNK):
            self._reply(_joined(self._buffer[self._body_at :]))
        elif self._end and len(self._buffer) >= self._end:
            self._reply(self._buffer[self._body_at : self._end])

    def _read_head(self) -> None:
        head, blank, _ = self._buffer.partition(b"\r\n\r\n")
        if not blank:
            return
        head = head.lower()
        self._body_at = len(head) + 4
        _, found, rest = head.partition(b"\r\ncontent-length:")
        if found:
            self._end = self._body_at + int(rest.partition(b"\r\n")[0])
        elif b"\r\ntransfer-encoding: chunked" in head:
            self._chunked = True
        else:
            self._settle(CallError("a response without Content-Length and not in chunks"))
            self.close()

    def _reply(self, body: bytes) -> None:
        reply = Reply(int(self._buffer[9:12]), body)
        self._buffer, self._end, self._chunked = b"", 0, False
        self._settle(reply)

    def _settle(self, outcome: Reply | Exception) -> None:
        if self._waiter is None or self._waiter.done():
            return
        if isinstance(outcome, Reply):
            self._waiter.set_result(outcome)
        else:
            self._waiter.set_exception(outcome)
