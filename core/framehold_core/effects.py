"""What the core wants done. A shell performs each effect in order and feeds what came of it back as an event.

The ordering contract: a `Reply` is given out only after the write that makes it true was acknowledged (I3), and a
`Go` only after its intent was. The core sees to it by the order of its steps; a shell must not reorder.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import NamedTuple

from .events import Answer
from .ids import Incarnation, Waiter
from .journal import Draft, Entry
from .requests import Answered, Evidence, Seen


class Op(StrEnum):
    """The scripts that write."""

    PARK = "commit"
    INTEND = "intent"
    RESULT = "result"
    FINISH = "finish"
    CLAIM = "claim"
    VERIFY = "verify"
    HEAL = "heal"
    RELEASE = "release"


class Write(NamedTuple):
    """Send one write; answered by `Acked`, `Claimed`, `Refused` or `StoreDown`. The same value may be sent again: the
    shell must then send the same bytes. `drafts` are appended at the call's position; `asks` is the set of asks of
    the round that a PARK begins."""

    op: Op
    drafts: tuple[Draft, ...] = ()
    asks: tuple[Draft, ...] = ()
    answered: Answered | None = None
    key: str = ""
    outcome: object = None
    cause: str = ""
    seen: Seen | None = None
    evidence: Evidence | None = None
    inc: Incarnation | None = None


@dataclass(frozen=True, slots=True)
class Lookup:
    """Read the record; answered by `Found` or `StoreDown`."""


@dataclass(frozen=True, slots=True)
class Run:
    """Enter the handler, feeding it the recorded `entries` first (none: a fresh call)."""

    epoch: int
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class Deliver:
    """Hand these answers to the asks that wait for them."""

    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Go:
    """The intent is durable and the window open: run the effect of `once`."""

    key: str


@dataclass(frozen=True, slots=True)
class Kept:
    """The result of `once` is durable: hand it to the handler."""

    key: str


@dataclass(frozen=True, slots=True)
class InDoubt:
    """The effect of `once` must not run: an intent of its key stood recorded before, or other answers do."""

    key: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Silence the frame and tear it down."""

    cause: str


class Reason(StrEnum):
    """Why a waiter gets neither questions nor an outcome."""

    CONFLICT = "conflict"
    ALREADY_ANSWERED = "already-answered"
    UNKNOWN = "unknown"
    LOST = "lost"
    STUCK = "stuck"
    DIVERGED = "diverged"
    UNAVAILABLE = "unavailable"
    OVERRAN = "overran"
    UNREADABLE = "unreadable"
    TOO_LARGE = "too-large"


class Questions(NamedTuple):
    """The questions of the current round, under a fresh token that names this history and is good for `lasts` seconds
    at most: a round that is asked again ends when it would have, since the record was not written again (rule 17)."""

    round: int
    epoch: int
    n: int
    mark: str
    lasts: float = inf


class Outcome(NamedTuple):
    """What the handler returned or raised. `sealed` is set instead where it comes from a tombstone,
    sealed for position `n`."""

    value: object = None
    sealed: bytes = b""
    n: int = 0
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Neither; `round` is the last round that was asked, `detail` names what is known."""

    reason: Reason
    round: int = 0
    detail: str = ""


class Reply(NamedTuple):
    """Answer one waiting request."""

    waiter: Waiter
    answer: Questions | Outcome | Refusal


@dataclass(frozen=True, slots=True)
class Relay:
    """Another node holds the call: pass the request of this waiter on to it."""

    waiter: Waiter
    node: str


@dataclass(frozen=True, slots=True)
class Ungated:
    """A reply leaves without its commit (rule 1's exception): count it."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Nothing of this call is left here."""


Effect = Write | Lookup | Run | Deliver | Go | Kept | InDoubt | Cancel | Reply | Relay | Ungated | Forget
