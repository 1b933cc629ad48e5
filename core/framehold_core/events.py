"""What can happen to a call on one node. Values only; `continuation` says what follows from each.

Events carry what the core may not fetch itself: the node's lease as it stands, what the store replied, what the
handler did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .ids import NodeId, Waiter
from .journal import Draft, Entry
from .lease import Lease
from .requests import Evidence, Stored, Verdict


class Answer(NamedTuple):
    """One well-formed answer: the digest and the bytes of its canonical JSON."""

    key: str
    digest: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Start:
    """Round 1 arrived: a request without a token of ours."""

    waiter: Waiter


class Retry(NamedTuple):
    """A request with a verified token. `round`, `epoch`, `mark` and `node` are the token's claims (`mark` is its
    history hash, `node` the node that minted it); `answers` holds every well-formed answer, asked for or not."""

    waiter: Waiter
    round: int
    epoch: int
    mark: str
    node: NodeId
    answers: tuple[Answer, ...]
    lease: Lease


@dataclass(frozen=True, slots=True)
class Left:
    """The request behind a waiter is gone: its client, or the router, disconnected."""

    waiter: Waiter


@dataclass(frozen=True, slots=True)
class Noted:
    """The handler learned something that needs no write of its own (a prefilled answer, a recorded value)."""

    drafts: tuple[Draft, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """The handler waits for answers, and the set of asks of this round is frozen."""

    asks: tuple[Draft, ...]


@dataclass(frozen=True, slots=True)
class Intended:
    """`once` wants to run an effect; it may not before `Go`. `key` is the digest of its key."""

    key: str
    draft: Draft


@dataclass(frozen=True, slots=True)
class Resulted:
    """The effect of `once` has run."""

    key: str
    draft: Draft


@dataclass(frozen=True, slots=True)
class Finished:
    """The handler returned or raised. `outcome` is the shell's own value."""

    outcome: object
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """Replay has consumed every recorded entry and every outstanding ask was asked again."""


@dataclass(frozen=True, slots=True)
class Diverged:
    """Replay asked for something other than what was recorded; `why` names both."""

    why: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The journal, or a value in it, can't be read here; `why` says what. Nothing is guessed: no handler goes on."""

    why: str


class Acked(NamedTuple):
    """The store applied the write in flight. `n` and `jh` are the call's position and history after it; `is_open` tells
    whether the node's window is open now, `already` that an earlier sending was applied, nobody knows when."""

    epoch: int
    n: int
    jh: str
    is_open: bool
    already: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """The store refused the write in flight; `stored` is what stands there, without its journal."""

    verdict: Verdict
    stored: Stored | None


@dataclass(frozen=True, slots=True)
class StoreDown:
    """The store did not answer; whether the write was applied is unknown."""

    is_open: bool


@dataclass(frozen=True, slots=True)
class Found:
    """The record as read. `evidence` says why it may be claimed, None while its owner lives elsewhere; `elsewhere`
    names the nodes, other than this one, that are alive."""

    stored: Stored | None
    entries: tuple[Entry, ...]
    evidence: Evidence | None
    elsewhere: frozenset[str]


@dataclass(frozen=True, slots=True)
class Claimed:
    """The claim was granted to this node under `lease`."""

    stored: Stored
    entries: tuple[Entry, ...]
    lease: Lease


@dataclass(frozen=True, slots=True)
class Nudged:
    """The store answers again: send what was left unsent."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """The node holds `lease` now: it was renewed, or is another incarnation than before. What waited for an open window
    may go on; a frame of an earlier incarnation is verified first."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Overran:
    """The round has run longer than it may."""


@dataclass(frozen=True, slots=True)
class Expired:
    """The last token of a parked call may have expired (`now` decides)."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Drop the frame if its handler may be entered again: memory is short, or nothing is to be kept between rounds."""

    cause: str = "evicted"


@dataclass(frozen=True, slots=True)
class Drain:
    """The node leaves: hand the call off if its handler may be entered again."""


@dataclass(frozen=True, slots=True)
class Stop:
    """An operator ends the call: `outcome` is its last word, and a value of the shell's as a handler's own is."""

    outcome: object
    cause: str = "cancelled"


Event = (
    Start
    | Retry
    | Left
    | Noted
    | Asked
    | Intended
    | Resulted
    | Finished
    | Rebuilt
    | Diverged
    | Unreadable
    | Acked
    | Refused
    | StoreDown
    | Found
    | Claimed
    | Nudged
    | Renewed
    | Overran
    | Expired
    | Evict
    | Drain
    | Stop
)
