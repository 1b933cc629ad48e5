"""What a node asks of the store, and what the store answers: the vocabulary of the scripts.

Every request but `Read` and `Claim` carries a `Fence`: who the writer is and where it believes the call to be.
`record` says what each request does; `store/framehold_store/scripts/` does the same in Redis."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from .ending import LOST, Ending, How
from .ids import Boot, CallId, Incarnation, NodeId
from .trail import Moved, TrailStep, followed
from .value import Value, replace


class RecordState(StrEnum):
    """Where a call stands in the store."""

    OPEN = "open"
    RELEASED = "released"
    DONE = "done"
    LOST = "lost"


class Answered(Value):
    """The digest of a round's answers, and the keys that had been asked. Written once per round."""

    round: int
    digest: str
    keys: tuple[str, ...]


class Fence(Value):
    """Who a writer is, and how far the store acknowledged the call to it. A write whose fence does not match the record
    is refused."""

    owner: NodeId
    incarnation: Incarnation
    epoch: int
    round: int
    position: int


class Seen(Value):
    """The owner of a record as a reader saw it. A compare-and-set applies only while the record still says so."""

    epoch: int
    owner: str
    incarnation: str


class Done(Value):
    """An effect of `once` whose result is recorded. `key` is the digest of its key; `intended` says whether its intent
    was recorded before it ran."""

    key: str
    intended: bool = True


class Batch(Value):
    """Encoded entries to append, and the history after them."""

    entries: tuple[bytes, ...]
    history: str


class Head(Value):
    """What a record says of its call from its first write on.

    `seal` is over the call and all other fields but `boot`, which changes with the owner. A shell makes it, and checks
    it in what the store gives back; core only compares it with that of a token. Empty where nobody could forge a
    record."""

    boot: Boot
    reentrant: bool
    tool: str
    code: str
    method: str
    target: str
    args: str
    principal: str
    strategy: str = "hold"
    seal: str = ""


class Record(Value):
    """A call in the store.

    The store writes some fields under shorter names: `incarnation` is `inc`, `position` is `n`, `history` is `jh`.
    `created` and `expires` are in seconds on the store's clock. `attempts` counts the owners that died running the
    present round. `answers` maps a round to the digest of its answers; `intents`, the digest of a `once` key to whether
    its result is recorded. `outcome` is sealed, and was given in round `out_round`. `cause` is how the call ended, or
    why it was lost; `error` and `place` are those of an `Ending`. These and `trail` are there to look at, and decide
    nothing."""

    state: RecordState
    head: Head
    owner: str
    incarnation: str
    epoch: int
    round: int
    position: int
    history: str
    attempts: int
    created: float
    expires: float
    answers: Mapping[int, Answered] = MappingProxyType({})
    intents: Mapping[str, bool] = MappingProxyType({})
    outcome: bytes = b""
    out_round: int = 0
    cause: str = ""
    trail: tuple[TrailStep, ...] = ()
    error: str = ""
    place: str = ""

    @property
    def ending(self) -> Ending | None:
        """How the call ended. None while it is open, and where its cause can't be read."""
        if self.state is RecordState.LOST:
            return LOST
        if self.state is not RecordState.DONE:
            return None
        try:
            return Ending(How(self.cause), self.error, self.place)
        except ValueError:
            return None

    @property
    def is_over(self) -> bool:
        """Whether the call has ended: no write of it is granted any more."""
        return self.state in (RecordState.DONE, RecordState.LOST)

    @property
    def seen(self) -> Seen:
        """The owner as a compare-and-set wants it."""
        return Seen(self.epoch, self.owner, self.incarnation)

    def stepped(self, step: Moved, node: str, at: float, ran: float = 0.0, kept: bool = False) -> Record:
        """This record after one more step."""
        return replace(self, trail=followed(self.trail, TrailStep(step, self.round, self.epoch, node, at, ran, kept)))


class Stored(Value):
    """A record with its journal (encoded entries)."""

    record: Record
    journal: tuple[bytes, ...]


class Verdict(StrEnum):
    """What the store made of a request."""

    OK = "ok"
    ALREADY = "already"
    """The store had applied this very request before; nothing was written now."""
    FENCED = "fenced"
    """The record has another owner, epoch or history; nothing was written, and the writer's frame must be dropped."""
    BEHIND = "behind"
    """The store went back below what the writer was acknowledged; nothing was written, the writer may heal."""
    CONFLICT = "conflict"
    """Other answers stand recorded for that round, or an intent or result for that key; nothing was written."""
    CHANGED = "changed"
    """The record is not as the caller read it; nothing was written, read again."""
    LOST = "lost"
    """The call can't be re-entered; that is now recorded."""
    STUCK = "stuck"
    """Too many owners died running this call; nothing was written."""
    MISSING = "missing"
    """There is no such record."""


class Evidence(StrEnum):
    """Why a node believes that it may claim a call. The record can't show whether the first is true: the node must know
    it."""

    GONE = "gone"
    RELEASED = "released"
    OWNER = "owner"


class Read(Value):
    """Record and journal of a call."""

    call: CallId


class Commit(Value):
    """Park: the round's answers and asks become durable and the round moves to `fence.round + 1`. `ran` is for the
    trail alone."""

    call: CallId
    fence: Fence
    batch: Batch
    ttl: float
    answered: Answered | None = None
    head: Head | None = None
    ran: float = 0.0
    results: tuple[Done, ...] = ()


class Intent(Value):
    """`once` is about to run: pending answers first, then the intent. `key` is the digest of the `once` key."""

    call: CallId
    fence: Fence
    batch: Batch
    ttl: float
    key: str
    answered: Answered | None = None
    head: Head | None = None
    results: tuple[Done, ...] = ()


class Result(Value):
    """What the handler has learned is recorded: pending answers first, then drawn values and the `results` of effects,
    in the order in which it learned them."""

    call: CallId
    fence: Fence
    batch: Batch
    ttl: float
    answered: Answered | None = None
    head: Head | None = None
    results: tuple[Done, ...] = ()


class Finish(Value):
    """The call ended: its outcome becomes a tombstone that lives `ttl` seconds, its journal is dropped. `ran` is for
    the trail alone."""

    call: CallId
    fence: Fence
    outcome: bytes
    ending: Ending
    ttl: float
    answered: Answered | None = None
    ran: float = 0.0
    results: tuple[Done, ...] = ()


class Claim(Value):
    """Take over a call whose owner is gone. `reentrant` is the promise of the code that will be entered; the recorded
    one is needed too (docs/protocol.md, rule 16). `kept` says that this is kept code; it is for the trail alone."""

    call: CallId
    seen: Seen
    evidence: Evidence
    owner: NodeId
    incarnation: Incarnation
    boot: Boot
    reentrant: bool
    max_attempts: int
    ttl: float
    kept: bool = False


class Verify(Value):
    """After a lapse: take the call again under incarnation `inc`, epoch + 1."""

    call: CallId
    fence: Fence
    incarnation: Incarnation
    ttl: float


class Heal(Value):
    """Write a live frame's whole journal over a store that went back; `seen` is None where the record was missing."""

    call: CallId
    fence: Fence
    seen: Seen | None
    batch: Batch
    answers: tuple[Answered, ...]
    intents: tuple[tuple[str, bool], ...]
    head: Head
    ttl: float


class Release(Value):
    """Give a call away: the next owner needs no wait."""

    call: CallId
    fence: Fence
    ttl: float


Request = Read | Commit | Intent | Result | Finish | Claim | Verify | Heal | Release


class Reply(Value):
    """A verdict, with the call's epoch and history after it. `stored` comes with Read, with a claim that was granted
    or refused, and with BEHIND (the record as it stands, its journal left out)."""

    verdict: Verdict
    epoch: int = 0
    stored: Stored | None = None
