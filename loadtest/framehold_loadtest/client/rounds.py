"""The messages of a call on 2026-07-28: what each round sends, and what its reply says. Pure.

They are those of the official client. A reply is JSON, or an event stream whose last event is the reply.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_VERSION = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": _VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "framehold-load", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}, "url": {}}},
}
PLAIN_FIELDS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
"""The header fields of a request of any revision."""
_AWAY = (502, 503, 504)
_UNAVAILABLE = -32603
_DATA = b"data: "


@dataclass(frozen=True, slots=True)
class Asked:
    """A reply that asks: the keys to answer, and the token to echo."""

    keys: tuple[str, ...]
    token: str


@dataclass(frozen=True, slots=True)
class Done:
    """A reply that ends the call; `failed` is a tool's own error."""

    text: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """A reply without a result. With `again` the same round may be sent once more."""

    why: str
    again: bool


Reply = Asked | Done | Refused


def fields(tool: str) -> dict[str, str]:
    """The header fields of a request that calls a tool."""
    return {**PLAIN_FIELDS, "mcp-protocol-version": _VERSION, "mcp-method": "tools/call", "mcp-name": tool}


def begin(number: int, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The body of round 1; `number` is the id of the request."""
    return _body(number, tool, arguments, {})


def retry(
    number: int, tool: str, arguments: Mapping[str, Any], asked: Asked, content: Mapping[str, Any]
) -> dict[str, Any]:
    """The body of a later round, which accepts each question with the same content."""
    answers = {key: {"action": "accept", "content": content} for key in asked.keys}
    return _body(number, tool, arguments, {"inputResponses": answers, "requestState": asked.token})


def read(status: int, content_type: str, body: bytes) -> Reply:
    """What a response says; `status` 0 stands for a connection that failed."""
    if status == 0:
        return Refused("no answer", again=True)
    message = _message(payload(content_type, body))
    error = message.get("error")
    if status in _AWAY or (isinstance(error, dict) and error.get("code") == _UNAVAILABLE):
        # An event stream has begun with 200 before its node knew.
        return Refused(f"503 {_error_text(message)}", again=True)
    result = message.get("result")
    if status != 200 or not isinstance(result, dict):
        return Refused(f"{status} {_error_text(message)}", again=False)
    if result.get("resultType") == "input_required":
        return Asked(tuple(result.get("inputRequests") or ()), str(result.get("requestState")))
    text = " ".join(str(block.get("text", "")) for block in result.get("content") or ())
    return Done(text, bool(result.get("isError")))


def payload(content_type: str, body: bytes) -> bytes:
    """The JSON of a reply: the body, or the last event of a stream."""
    if not content_type.startswith("text/event-stream"):
        return body
    events = [line for line in body.splitlines() if line.startswith(_DATA)]
    return events[-1].removeprefix(_DATA) if events else b""


def _body(number: int, tool: str, arguments: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    params = {**more, "name": tool, "arguments": arguments, "_meta": _META}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def _message(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _error_text(message: Mapping[str, Any]) -> str:
    error = message.get("error")
    return str(error.get("message", ""))[:120] if isinstance(error, dict) else "without a message"
