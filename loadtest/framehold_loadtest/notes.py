"""The notes of users on their calls: one JSON line for each round, each pair of duplicates and each call.

Law: a note holds only what a client saw. Times are seconds since the epoch, so that the notes of several machines can
be compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

ENDED, LOST, UNBORN, OPEN = "ended", "lost", "unborn", "open"
"""How a call came out: with its right result; without one, though it had begun; never begun; cut off by the test's
end."""

FIRST, LATER, MENDED, COPY = "round 1", "round n", "resume-after-fault", "duplicate"
REFUSED, TOTAL = "refused", "call:total"
"""What locust counts requests as."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round. `seconds` count from the first try; `refused` are the tries before the last one, each by its reason;
    `node` is empty where nobody answered, `before` is the node of the round before."""

    call: str
    round: int
    at: float
    seconds: float
    node: str = ""
    before: str = ""
    refused: tuple[str, ...] = ()
    why: str = ""
    """Why it came to nothing; empty if it was answered."""
    asked: bool = False
    """Whether it brought a question."""

    @property
    def answered(self) -> bool:
        """Whether it was, however late."""
        return not self.why


@dataclass(frozen=True, slots=True)
class Call:
    """A call, at its end."""

    call: str
    began: float
    ended: float
    rounds: int
    outcome: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The same retry, sent several times at once, and whether each time brought the same result."""

    call: str
    at: float
    seconds: float
    same: bool


@dataclass(slots=True)
class Notes:
    """All notes of a run, and when it began and ended (0 where it has not)."""

    rounds: list[Round] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    duplicates: list[Duplicate] = field(default_factory=list)
    began: float = 0.0
    ended: float = 0.0

    def take(self, lines: Iterable[str]) -> None:
        """Add what these lines say."""
        for line in lines:
            fields = json.loads(line)
            kind = fields.pop("kind")
            if kind == "round":
                self.rounds.append(Round(**{**fields, "refused": tuple(fields["refused"])}))
            elif kind == "call":
                self.calls.append(Call(**fields))
            elif kind == "duplicate":
                self.duplicates.append(Duplicate(**fields))
            elif kind == "began":
                self.began = fields["at"]
            else:
                self.ended = fields["at"]


_KINDS = {Round: "round", Call: "call", Duplicate: "duplicate"}


def line(note: Round | Call | Duplicate) -> str:
    """A note as it is written."""
    return json.dumps({"kind": _KINDS[type(note)], **asdict(note)}, separators=(",", ":"))


def mark(kind: str, at: float) -> str:
    """The line that says when a run `began` or `ended`."""
    return json.dumps({"kind": kind, "at": at})


def outcomes(calls: Iterable[Call]) -> dict[str, int]:
    """How many calls came out in each way."""
    counts = dict.fromkeys((ENDED, LOST, UNBORN, OPEN), 0)
    for call in calls:
        counts[call.outcome] += 1
    return counts
