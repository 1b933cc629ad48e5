"""The calls of the benchmark's tool: the bytes of their two rounds, and what a right reply is.

A reply must be JSON in one piece: an event stream takes another path in the server, so it is a `CallError` here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from framehold_loadtest.client import rounds
from framehold_loadtest.client.connection import CallError, Response, post
from framehold_loadtest.client.rounds import Asked
from framehold_loadtest.served.weather import TOOL_NAME, expected_text

_FIELDS = {
    "accept-encoding": "gzip, deflate",
    "connection": "keep-alive",
    "user-agent": "framehold-bench",
    **rounds.fields(TOOL_NAME),
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call: its argument, and the answer that its user gives."""

    number: int
    location: str
    units: str


def make_call(number: int) -> Call:
    """The call of that number; neighbours differ, so that a mixed-up result is noticed."""
    return Call(number, f"city {number}", "CFK"[number % 3])


def first_round(port: int, call: Call) -> bytes:
    """The request that starts a call."""
    return post(port, _FIELDS, rounds.begin(2 * call.number, TOOL_NAME, {"location": call.location}))


def second_round(port: int, call: Call, asked: Asked, mark: str = "") -> bytes:
    """The retry that answers every question and echoes the token.

    `mark` is the name of an additional header field.
    """
    more = {mark: "1"} if mark else {}
    arguments, content = {"location": call.location}, {"units": call.units}
    return post(port, _FIELDS | more, rounds.retry(2 * call.number + 1, TOOL_NAME, arguments, asked, content))


def get(port: int, target: str) -> bytes:
    """A GET request."""
    return f"GET {target} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n".encode()


def read_question(reply: Response) -> Asked:
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
    return Asked(tuple(requests), token)


def check_result(reply: Response, call: Call) -> None:
    """Accept the right final result of a call, and nothing else.

    Raises:
        CallError: it is another one, or an error.
    """
    result = _result(reply)
    if result.get("resultType") != "complete" or result.get("isError"):
        raise CallError(f"round 2 is not a result: {str(result)[:120]}")
    if result.get("content") != [{"type": "text", "text": expected_text(call.location, call.units)}]:
        raise CallError("round 2 has a wrong result")


def _result(reply: Response) -> dict[str, Any]:
    try:
        message = json.loads(reply.body)
    except ValueError:
        raise CallError(f"HTTP {reply.status} without JSON") from None
    result = message.get("result") if isinstance(message, dict) else None
    if reply.status != 200 or not isinstance(result, dict):
        raise CallError(f"HTTP {reply.status}: {str(message)[:120]}")
    return result
