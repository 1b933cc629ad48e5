"""The ledger of effects: a file with one line for each effect that ran, whatever the reply to the client was.

Law: a line is `call effect key`. The effect writes it with one O_APPEND, so the line is whole or not there, and it
outlives a process that is killed. Correctness is judged by the ledger after the run, never by an HTTP status.

The key is an idempotency key: a service that gets the same key twice does the effect once, as payment services do. An
effect without `once` has no key (`-`), and each of its lines counts.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from framehold_loadtest.notes import ENDED, Call

EFFECTS = ("reserve", "book")
"""What each call does: before its first question, and after its last."""
UNGUARDED = "-"
ENTERED = "entered"
"""What is noted in place of an effect where a handler begins; the key names the handler, or the step of it."""


@dataclass(frozen=True, slots=True)
class Effects:
    """How many effects the ended calls should have, how many of these are there just once, and how many never; `twice`
    counts those of any call, ended or not, that are there more than once."""

    wanted: int
    once: int
    twice: int
    never: int


def note(path: str, call: str, effect: str, key: str) -> None:
    """Append one line. A process may be killed before or after, never within."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{call} {effect} {key}\n".encode("ascii"))
    finally:
        os.close(file)


def read(path: Path) -> list[str]:
    """The lines so far; none where nothing was done yet."""
    return path.read_text("ascii").splitlines() if path.exists() else []


def repeated(lines: Iterable[str]) -> set[str]:
    """The calls that have an effect more than once."""
    return {item.partition(" ")[0] for item, times in _done(lines).items() if times > 1}


def compare(lines: Iterable[str], calls: Iterable[Call]) -> Effects:
    """What the ledger says against what the calls should have done."""
    done = _done(lines)
    wanted = [f"{call.call} {effect}" for call in calls if call.outcome == ENDED for effect in EFFECTS]
    return Effects(
        wanted=len(wanted),
        once=sum(done[item] == 1 for item in wanted),
        twice=sum(times > 1 for times in done.values()),
        never=sum(done[item] == 0 for item in wanted),
    )


def reentries(lines: Iterable[str], calls: Iterable[Call]) -> int:
    """How often handlers, or steps of them, were entered for these calls beyond the first time."""
    known = {call.call for call in calls}
    entries = [line for line in lines if (words := line.split(" "))[1] == ENTERED and words[0] in known]
    return len(entries) - len(set(entries))


def _done(lines: Iterable[str]) -> Counter[str]:
    """How often each `call effect` happened; under one key it is once."""
    entries = [words for line in lines if (words := line.split(" "))[1] != ENTERED]
    keyed = {(call, effect, key) for call, effect, key in entries if key != UNGUARDED}
    done = Counter(f"{call} {effect}" for call, effect, _ in keyed)
    done.update(f"{call} {effect}" for call, effect, key in entries if key == UNGUARDED)
    return done
