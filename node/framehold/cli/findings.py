"""What a check finds: a verdict, a sentence, and what to do where something is not as it should be."""

from __future__ import annotations

from typing import Literal, NamedTuple

Verdict = Literal["ok", "warn", "fail"]


class Finding(NamedTuple):
    """One check's outcome. `do` is empty where nothing needs to be done."""

    check: str
    verdict: Verdict
    says: str
    do: str = ""


def ok(check: str, says: str) -> Finding:
    """As it should be."""
    return Finding(check, "ok", says)


def warn(check: str, says: str, do: str) -> Finding:
    """It works, or may work, and someone should know."""
    return Finding(check, "warn", says, do)


def fail(check: str, says: str, do: str) -> Finding:
    """It doesn't work, or loses calls."""
    return Finding(check, "fail", says, do)
