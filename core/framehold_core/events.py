"""What can happen to a call on one node. Values only; `continuation` says what follows from each.

Events carry what the core may not fetch itself: the node's lease as it stands, what the store replied, what the
handler did.
"""

from __future__ import annotations

from .ending import CANCELLED, COMPLETED, Ending
from .ids import NodeId, Waiter
from .journal import Draft, Entry
from .lease import Lease
from .requests import Evidence, Stored, Verdict
from .value import Value


class Answer(Value):
    """One well-formed answer: its digest (`journal.answer_digest`), and its canonical JSON as bytes."""

    key: str
    digest: str
    value: bytes


class Start(Value):
    """Round 1 arrived: a request without a token of this fleet."""

    waiter: Waiter


class Retry(Value):
    """A request with a verified token.

    `round`, `epoch`, `round_history`, `node` (the node that minted it) and `head` (the seal of the head of the call's
    record) are the token's claims. `answers` are all its well-formed answers, asked for or not. `lease` is this node's
    lease as it stands."""

    waiter: Waiter
    round: int
    epoch: int
    round_history: str
    node: NodeId
    answers: tuple[Answer, ...]
    lease: Lease
    head: str = ""


class Left(Value):
    """The request behind a waiter is gone: its client, or the router, disconnected."""

    waiter: Waiter


class Noted(Value):
    """The handler got something that is recorded, but needs no write of its own: a prefilled answer, or a value that a
    replay must repeat (`now`, `uuid4`, `random`)."""

    drafts: tuple[Draft, ...]


class Asked(Value):
    """The handler waits for answers to `asks`; the round gets no other questions (docs/protocol.md, rule 11)."""

    asks: tuple[Draft, ...]


class Intended(Value):
    """`once` wants to run an effect, and waits for `Go`. `key` is the digest of its key. `draft` is its intent; None
    for an effect that was declared idempotent and needs none: then `is_open` tells whether the node's window is open
    now."""

    key: str
    draft: Draft | None
    is_open: bool = False


class Resulted(Value):
    """The effect of `once` has run. `key` is the digest of its key. The kind of `draft` is RESULT, or EFFECT if no
    intent was recorded."""

    key: str
    draft: Draft


class Flush(Value):
    """The results that the call owes are to be written now: no other write has taken them along in time, or something
    that depends on them is to leave the node."""


class Finished(Value):
    """The handler returned or raised. `outcome` is a value of the shell's: the core only hands it on."""

    outcome: object
    ending: Ending = COMPLETED


class Rebuilt(Value):
    """Replay has consumed every recorded entry and every outstanding ask was asked again."""


class Diverged(Value):
    """Replay asked for something other than what was recorded; `why` names both."""

    why: str


class Unreadable(Value):
    """The journal, or a value in it, can't be read here; `why` says what. Nothing is guessed: no handler goes on."""

    why: str


class Acked(Value):
    """The store applied the write in flight.

    `position` and `history` are the call's after the write. `is_open` tells whether the node's window is open now;
    `sent` is when the write was first sent, in seconds on the node's clock; `already`, that an earlier sending of it
    was applied, at a time that is not known."""

    epoch: int
    position: int
    history: str
    is_open: bool
    sent: float
    already: bool = False


class WriteRefused(Value):
    """The store refused the write in flight. `stored` is the record as it stands, without its journal."""

    verdict: Verdict
    stored: Stored | None


class StoreDown(Value):
    """The store did not answer; whether the write was applied is unknown. `why` is for clients: which limit of the
    system kept this process from asking the store, or why a call that was looked up must not be claimed now, though
    the store answers. `paused` says by whom, if the reason is that its tool is paused."""

    is_open: bool
    why: str = ""
    paused: str = ""


class MayClaim(Value):
    """This node may claim the call. `died` says whether the process that ran it is gone. `code` is the digest of the
    kept code that is entered in place of the present one, if it can be had; empty for the present one."""

    evidence: Evidence
    died: bool
    code: str = ""


class Pass(Value):
    """Another node answers requests that need a frame. `offered` says that it need not have the call: each request is
    passed on in this way once."""

    node: NodeId
    offered: bool = False


class Found(Value):
    """The record as read, and what `ownership` has judged of it; None where there is no record. `waiters` are the
    requests that had come before that read. `elsewhere` names the other nodes that are alive. `reentrant` says whether
    the code that this node will enter is marked, and `kept` whether this is the kept code that the record names, in
    place of the present code (docs/protocol.md, rules 16 and 28)."""

    stored: Stored | None
    entries: tuple[Entry, ...]
    judged: MayClaim | Pass | None
    waiters: frozenset[Waiter]
    elsewhere: frozenset[NodeId]
    reentrant: bool
    kept: bool = False


class Claimed(Value):
    """The claim was granted to this node. `lease` is the node's lease as it stands now, `sent` is when the claim was
    first sent, in seconds on the node's clock."""

    stored: Stored
    entries: tuple[Entry, ...]
    lease: Lease
    sent: float


class StoreBack(Value):
    """The store answers again: a stalled write can be sent."""


class Renewed(Value):
    """The node holds `lease` now: it was renewed, or is registered under another incarnation than before. Effects that
    waited for an open window may start; a frame of an earlier incarnation is verified first."""

    lease: Lease


class Recheck(Value):
    """The store may have gone back to an older state: compare the record with this frame now. `lease` is the node's
    lease as it stands."""

    lease: Lease


class Overran(Value):
    """The round has run longer than its limit."""


class Expired(Value):
    """The last token of a parked call may have expired (`now` decides)."""


class Evict(Value):
    """Drop the frame if its handler may be entered again: memory is short, or nothing is to be kept between rounds."""

    cause: str = "evicted"


class Drain(Value):
    """The node leaves: hand the call off if its handler may be entered again."""


class Stop(Value):
    """An operator ends the call with `outcome`, a value of the shell's like the outcome of a handler."""

    outcome: object
    ending: Ending = CANCELLED


Event = (
    Start
    | Retry
    | Left
    | Noted
    | Asked
    | Intended
    | Resulted
    | Flush
    | Finished
    | Rebuilt
    | Diverged
    | Unreadable
    | Acked
    | WriteRefused
    | StoreDown
    | Found
    | Claimed
    | StoreBack
    | Renewed
    | Recheck
    | Overran
    | Expired
    | Evict
    | Drain
    | Stop
)
