"""The calls of the booking tool: its rounds, the answers of its users, and the text of a right result. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framehold_loadtest.client import rounds
from framehold_loadtest.client.rounds import Asked, Done, Refused, Reply
from framehold_loadtest.notes import ENDED, LOST

TOOL = "trip"
FIELDS = rounds.fields(TOOL)
"""The header fields of its requests."""


def begin(call: str, count: int, size: int = 0) -> dict[str, Any]:
    """The body of round 1 of a call with so many rounds, which keeps `size` bytes between them."""
    return rounds.begin(1, TOOL, _arguments(call, count, size))


def retry(number: int, call: str, count: int, asked: Asked, size: int = 0) -> dict[str, Any]:
    """The body of a later round, which answers each question."""
    return rounds.retry(number, TOOL, _arguments(call, count, size), asked, {"choice": choice(number - 1)})


def choice(number: int) -> str:
    """The answer to a call's question of that number; neighbours differ, so that a mixed-up answer is noticed."""
    return ("north", "east", "south", "west")[number % 4]


def result_text(call: str, chosen: Sequence[str]) -> str:
    """The text of a right result."""
    return f"{call}: {' '.join(chosen)}"


def expected(call: str, count: int) -> str:
    """The text that a call of so many rounds must end with."""
    return result_text(call, [choice(number) for number in range(1, count)])


def outcome(reply: Reply | None, call: str, count: int) -> tuple[str, str]:
    """How a call of so many rounds came out that had begun, and why, by its last reply."""
    if isinstance(reply, Refused):
        return LOST, reply.why
    if not isinstance(reply, Done) or reply.failed or reply.text != expected(call, count):
        return LOST, f"wrong result: {str(reply)[:120]}"
    return ENDED, ""


def _arguments(call: str, count: int, size: int) -> dict[str, Any]:
    return {"call": call, "rounds": count} | ({"size": size} if size else {})
