"""The calls of the benchmark's tool: the bytes of their two rounds, and what a right reply is.

A reply must be JSON in one piece: an event stream takes another path in the server, so it is a `CallError` here.
"""

from __future__ import annotations

from dataclasses import dataclass

from framehold_loadtest.client import rounds
from framehold_loadtest.client.connection import CallError, Response, post
from framehold_loadtest.client.rounds import Asked, Done, Refused
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
    found = _read(reply)
    if not isinstance(found, Asked) or not found.keys:
        raise CallError(f"round 1 asked nothing{_why(found)}")
    return found


def check_result(reply: Response, call: Call) -> None:
    """Accept the right final result of a call, and nothing else.

    Raises:
        CallError: it is another one, or an error.
    """
    found = _read(reply)
    if found != Done(expected_text(call.location, call.units), failed=False):
        raise CallError(f"round 2 has a wrong result{_why(found)}")


def _read(reply: Response) -> rounds.Reply:
    return rounds.read(reply.status, "application/json", reply.body)


def _why(found: rounds.Reply) -> str:
    """As the end of a sentence, the reason of a refusal."""
    return f": {found.why}" if isinstance(found, Refused) else ""
