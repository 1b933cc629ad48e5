"""The client's side of a call on 2026-07-28: what each round sends, and what its reply says. Pure.

As the official client sends it. A reply is JSON, or an event stream whose last event is the reply.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TOOL = "trip"
_VERSION = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": _VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "framehold-load", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}, "url": {}}},
}
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "mcp-protocol-version": _VERSION,
    "mcp-method": "tools/call",
    "mcp-name": TOOL,
}
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
    """A reply that says nothing of the call. `again`: the same round may be sent once more."""

    why: str
    again: bool


Reply = Asked | Done | Refused


def begin(call: str, rounds: int) -> dict[str, Any]:
    """The body of round 1."""
    return _body(1, call, rounds, {})


def retry(number: int, call: str, rounds: int, asked: Asked) -> dict[str, Any]:
    """The body of a later round, which answers each question."""
    answer = {"action": "accept", "content": {"choice": choice(number - 1)}}
    return _body(
        number, call, rounds, {"inputResponses": dict.fromkeys(asked.keys, answer), "requestState": asked.token}
    )


def choice(number: int) -> str:
    """The answer to a call's question of that number; neighbours differ, so a mixed-up one is noticed."""
    return ("north", "east", "south", "west")[number % 4]


def said(call: str, chosen: Sequence[str]) -> str:
    """The text of a right result."""
    return f"{call}: {' '.join(chosen)}"


def expected(call: str, rounds: int) -> str:
    """What a call of so many rounds must end with."""
    return said(call, [choice(number) for number in range(1, rounds)])


def read(status: int, content_type: str, body: bytes) -> Reply:
    """What a response says; `status` 0 is a connection that came to nothing."""
    if status == 0:
        return Refused("no answer", again=True)
    message = _message(content_type, body)
    error = message.get("error")
    if status in _AWAY or (isinstance(error, dict) and error.get("code") == _UNAVAILABLE):
        # An event stream has begun with 200 before its node knew.
        return Refused(f"503 {_told(message)}", again=True)
    result = message.get("result")
    if status != 200 or not isinstance(result, dict):
        return Refused(f"{status} {_told(message)}", again=False)
    if result.get("resultType") == "input_required":
        return Asked(tuple(result.get("inputRequests") or ()), str(result.get("requestState")))
    text = " ".join(str(block.get("text", "")) for block in result.get("content") or ())
    return Done(text, bool(result.get("isError")))


def _body(number: int, call: str, rounds: int, more: Mapping[str, Any]) -> dict[str, Any]:
    params = {**more, "name": TOOL, "arguments": {"call": call, "rounds": rounds}, "_meta": _META}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def _message(content_type: str, body: bytes) -> dict[str, Any]:
    if content_type.startswith("text/event-stream"):
        events = [line for line in body.splitlines() if line.startswith(_DATA)]
        body = events[-1].removeprefix(_DATA) if events else b""
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _told(message: Mapping[str, Any]) -> str:
    error = message.get("error")
    return str(error.get("message", ""))[:120] if isinstance(error, dict) else "without a message"
