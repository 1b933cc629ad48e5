"""The result of a check: a verdict, a sentence, and what to do if something is wrong."""

from __future__ import annotations

from typing import Literal, NamedTuple

Verdict = Literal["ok", "warn", "fail"]


class Finding(NamedTuple):
    """The result of one check. `says` is what was found. `do` is what to do; empty if nothing needs to be done."""

    check: str
    verdict: Verdict
    says: str
    do: str = ""


def ok(check: str, says: str) -> Finding:
    """A finding without a problem."""
    return Finding(check, "ok", says)


def warn(check: str, says: str, do: str) -> Finding:
    """A finding that may be a problem."""
    return Finding(check, "warn", says, do)


def fail(check: str, says: str, do: str) -> Finding:
    """A finding that prevents work, or loses calls."""
    return Finding(check, "fail", says, do)
