"""What handlers did, on disk: the one witness that outlives whoever is killed.

A line is `call what key pid`, written with one O_APPEND, so that many processes may write at once and a line is whole
or not there. `what` is one of

    entered     a handler began; key is its tool
    effect      an effect under `once` ran; key is its key
    doubt       `once` did not run it: it may have run before; key is its key
    runs        a handler stands at its gate
    passed      it is through
    cancelled   a handler was cancelled where it stood
    raised      a handler failed
    ended       a handler came to its end
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.kit.processes import DEADLINE, until

VARIABLE = "LEDGER"
"""Names the file to whoever writes."""


class Line(NamedTuple):
    """One thing that a handler did."""

    call: str
    what: str
    key: str
    pid: int


def note(call: str, what: str, key: str = "-") -> None:
    """Append one line. A thread may be killed before or after, never within."""
    file = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{call} {what} {key} {os.getpid()}\n".encode("ascii"))
    finally:
        os.close(file)


class Ledger:
    """Reads the file back."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, call: str | None = None, what: str | None = None) -> list[Line]:
        """What was written, in order; of one call or of one kind where asked so."""
        if not self.path.exists():
            return []
        rows = (row.split(" ") for row in self.path.read_text("ascii").splitlines())
        found = (Line(name, kind, key, int(pid)) for name, kind, key, pid in rows)
        return [line for line in found if call in (None, line.call) and what in (None, line.what)]

    def count(self, call: str, what: str) -> int:
        """How often a call did that."""
        return len(self.lines(call, what))

    def effects(self, call: str) -> list[str]:
        """The keys of the effects that ran, in order."""
        return [line.key for line in self.lines(call, "effect")]

    def settled(self) -> dict[str, set[str]]:
        """By call, the keys of effects that ran, or that `once` would not run because they may have."""
        found: dict[str, set[str]] = defaultdict(set)
        for line in self.lines():
            if line.what in ("effect", "doubt"):
                found[line.call].add(line.key)
        return found

    async def has(self, call: str, what: str, times: int = 1, deadline: float = DEADLINE) -> None:
        """Wait until a call has done that so often."""
        await until(lambda: self.count(call, what) >= times, f"{call} {what} x {times}", deadline)

    def repeated(self) -> list[tuple[str, str]]:
        """The (call, key) of effects that ran more than once: always none."""
        ran = Counter((line.call, line.key) for line in self.lines(what="effect"))
        return [which for which, times in ran.items() if times > 1]

    def entered_again(self, calls: Iterable[str]) -> list[str]:
        """Which of these calls' handlers were entered more than once."""
        times = Counter(line.call for line in self.lines(what="entered"))
        return [call for call in calls if times[call] > 1]
