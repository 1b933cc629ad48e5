"""Who carries on a call whose frame is not here.

`ROWS` is the ownership table of docs/protocol-tables.md, asked from the top; the first row that holds decides. Whoever
has read a record and the node leases asks `Ownership.judge`: a node before it claims a call, and the simulation. What
the table decides of an owner is whether it may be claimed from; what becomes of each waiting request then is decided
from the record (`takeover`), and the claim is granted or refused by the store (`record`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from . import journal
from .events import Found, MayClaim, Pass, Retry
from .ids import Boot, CallId, Incarnation, NodeId
from .journal import Entry
from .lease import LIVE, Lease, NodeRecord, is_alone
from .missing_nodes import MissingNodes
from .pauses import Pause
from .record import apply
from .requests import Claim, Evidence, Record, RecordState, Stored, Verdict
from .suspects import has_died, is_suspect
from .takeover import is_of
from .value import Value


class Wait(Enum):
    """Why nothing is decided now: the client is asked to come again."""

    HEALER = "the store went back, and the node that could mend it may not have come back to it yet"
    UNREGISTERED = "this node has no lease in the store now, and claims nothing until it is registered"
    WENT_BACK = "the store went back lately; nothing is claimed until its leases are distinguished"
    OVERWRITTEN = "somebody else has written in the place of its owner's lease; its owner may yet live"
    AWAY = "the store was away lately; its owner may only not have come back to it yet"
    TURN = "it may have ended several nodes, so it is entered alone, and others like it are before it"


class Death(Value):
    """The process that ran the call is gone: that is held against its tool, and the call is judged again."""

    record: Record


Judgement = Wait | Death | Pass | MayClaim | Pause | None
"""What becomes of a call. None: there is no record. A pause: its tool is paused, and the process that ran it is
gone."""


class Sight(Value):
    """All that a node has seen of a call when it has read its record."""

    call: CallId
    stored: Stored | None
    """The record, if it is whole."""
    waiting: tuple[Retry, ...]
    """The requests that wait for the call."""
    leases: Mapping[NodeId, NodeRecord]
    """The leases of the fleet that are believed. A node that nothing can be sent to has no address."""
    doubtful: frozenset[NodeId]
    """The nodes in the place of whose leases something else stands."""
    me: Lease
    """This node's own lease."""
    code: str
    """The digest of the code that this process has for the handler."""
    is_marked: bool
    """Whether that code may be entered again."""
    is_registered: bool = True
    """Whether this node's incarnation is registered."""
    may_claim: bool = True
    """Whether this node claims calls: the store did not go back lately."""
    absences_count: bool = True
    """Whether a lease that is missing proves that its node is gone."""
    heir: NodeId | None = None
    """The node that carries on what this one doesn't, if it drains."""
    may_offer: bool = True
    """Whether each waiting request may be passed on to a node that need not have the call."""
    death_told: bool = False
    """Whether the end of the process that ran the call has been held against the tool."""
    pause: Pause | None = None
    """The pause of the tool, if the store says that it is paused."""
    has_turn: bool = False
    """Whether the call is the suspect that may be entered now."""

    def found(self, judged: MayClaim | Pass | None, entries: tuple[Entry, ...] = (), kept: bool = False) -> Found:
        """The event of a call that was judged by this. `entries` and `kept` are of a call that may be claimed: its
        journal, and whether its kept code will be entered."""
        waiters = frozenset(retry.waiter for retry in self.waiting)
        elsewhere = frozenset(self.leases.keys() - {self.me.node})
        return Found(self.stored, entries, judged, waiters, elsewhere, self.is_marked or kept, kept)


class TakeoverCase(Value):
    """One sight, with what the rows ask about it. `unsure`: nobody knows yet whether a node lives that could mend the
    record. `may_live`: the owner may live although it has no lease that is believed. `serving` is a live node that
    serves the code that the call began with, if this process has other code."""

    sight: Sight
    unsure: bool = False
    evidence: Evidence | None = None
    may_live: bool = False
    serving: NodeId | None = None

    @property
    def record(self) -> Record:
        """The record that was read."""
        assert self.sight.stored is not None, "the row of a missing record comes first"
        return self.sight.stored.record

    @property
    def died(self) -> bool:
        """Whether the process that ran the call is gone, and its frame with it. It may have had this node's name."""
        return self.evidence is not None and has_died(self.record, self.evidence, self.sight.me.boot)

    @property
    def is_free(self) -> bool:
        """Whether no process runs the call, and none has a frame of it."""
        return self.died or self.evidence is Evidence.RELEASED

    @property
    def kept_code(self) -> str:
        """The digest of the code that a claim would enter in place of this process's own; empty if it would not."""
        named = any(is_of(retry, self.record) for retry in self.sight.waiting)
        return self.record.head.code if has_other_code(self.record, self.sight.code) and named else ""

    @property
    def may_be_entered(self) -> bool:
        """Whether a claim may enter the handler again (docs/protocol.md, rule 16), as far as record and code say."""
        return not self.record.is_over and self.record.head.reentrant and (self.sight.is_marked or bool(self.kept_code))

    @property
    def waits_for_turn(self) -> bool:
        """Whether the call is a suspect whose turn has not come. One that no claim enters is none."""
        assert self.evidence is not None, "the row of a live owner comes first"
        if self.sight.has_turn or not self.may_be_entered:
            return False
        return is_suspect(self.record, self.evidence, self.sight.me.boot)


class TakeoverRow(Value):
    """One line of the table. `rule` is the rule of docs/protocol.md that it carries out."""

    rule: int
    when: str
    holds: Callable[[TakeoverCase], bool]
    then: Callable[[TakeoverCase], Judgement]


def _claim(case: TakeoverCase) -> MayClaim:
    assert case.evidence is not None, "the row of a live owner comes first"
    return MayClaim(case.evidence, case.died, case.kept_code)


ROWS: tuple[TakeoverRow, ...] = (
    TakeoverRow(7, "a token is beyond the record, and its node may live", lambda c: c.unsure, lambda _: Wait.HEALER),
    TakeoverRow(7, "there is no record", lambda c: c.sight.stored is None, lambda _: None),
    TakeoverRow(
        7,
        "it may be claimed, and the store went back lately",
        lambda c: c.evidence is not None and not c.sight.may_claim,
        lambda _: Wait.WENT_BACK,
    ),
    TakeoverRow(
        5,
        "its owner is gone, and something else stands in the place of its lease",
        lambda c: c.evidence is Evidence.GONE and c.may_live,
        lambda _: Wait.OVERWRITTEN,
    ),
    TakeoverRow(
        25,
        "its owner is gone, and a missing lease proves nothing",
        lambda c: c.evidence is Evidence.GONE and not c.sight.absences_count,
        lambda _: Wait.AWAY,
    ),
    TakeoverRow(
        23,
        "it is another node's, and this node drains",
        lambda c: c.evidence in (Evidence.RELEASED, Evidence.GONE) and c.sight.heir is not None,
        lambda c: Pass(_known(c.sight.heir)),
    ),
    TakeoverRow(
        28,
        "nobody runs it, and a live node serves the code that it began with",
        lambda c: c.is_free and c.serving is not None,
        lambda c: Pass(_known(c.serving), offered=True),
    ),
    TakeoverRow(
        4,
        "it may be claimed and is not over, and this node is not registered",
        lambda c: c.evidence is not None and not c.record.is_over and not c.sight.is_registered,
        lambda _: Wait.UNREGISTERED,
    ),
    TakeoverRow(
        27,
        "its process is gone, and that is not held against its tool yet",
        lambda c: c.died and not c.sight.death_told,
        lambda c: Death(c.record),
    ),
    TakeoverRow(
        27,
        "its process is gone, and its tool is paused",
        lambda c: c.died and c.sight.pause is not None,
        lambda c: c.sight.pause,
    ),
    TakeoverRow(3, "its owner lives", lambda c: c.evidence is None, lambda c: Pass(NodeId(c.record.owner))),
    TakeoverRow(27, "it is a suspect, and others are before it", lambda c: c.waits_for_turn, lambda _: Wait.TURN),
    TakeoverRow(3, "else", lambda _: True, _claim),
)


class Ownership:
    """Judges calls for one node. It remembers which nodes it has missed, and since when. `ttl` is for how many seconds
    a node lease counts."""

    def __init__(self, ttl: float) -> None:
        self._healers, self._owners = MissingNodes(ttl), MissingNodes(ttl)

    def judge(self, sight: Sight, now: float) -> Judgement:
        """What becomes of a call. `now` is in seconds on the node's clock."""
        case = self._case(sight, now)
        return next(row.then(case) for row in ROWS if row.holds(case))

    def _case(self, sight: Sight, now: float) -> TakeoverCase:
        alive = sight.leases.keys() | {sight.me.node}
        beyond = [item.node for item in sight.waiting if is_beyond(item, sight.stored)]
        # Each of them is looked for, so that its absence is remembered from now on.
        unknown = [node for node in beyond if not self._healers.is_certain(node, alive, now)]
        unsure = bool(unknown) and not is_alone(sight.me)
        if sight.stored is None:
            return TakeoverCase(sight, unsure)
        record = sight.stored.record
        owner, boots = NodeId(record.owner), {node: item.boot for node, item in sight.leases.items()}
        may_live = self._owners.may_live(owner, record.head.boot, boots, owner in sight.doubtful, now)
        return TakeoverCase(sight, unsure, evidence_of(sight), may_live, _serving(sight))


def is_beyond(retry: Retry, stored: Stored | None) -> bool:
    """Whether a token names a round or an owner that its record has not come to."""
    epoch, round_ = (0, 0) if stored is None else (stored.record.epoch, stored.record.round)
    return retry.epoch > epoch or retry.round > round_


def evidence_of(sight: Sight) -> Evidence | None:
    """Why this node may claim the call; None while its owner lives elsewhere (docs/protocol.md, rules 4 and 5)."""
    assert sight.stored is not None
    record = sight.stored.record
    if record.state is RecordState.RELEASED:
        return Evidence.RELEASED
    if record.owner == sight.me.node:
        return Evidence.OWNER
    lease = sight.leases.get(NodeId(record.owner))
    return None if lease is not None and lease.boot == record.head.boot else Evidence.GONE


def next_claim(call: CallId, stored: Stored, lives: bool, max_attempts: int) -> tuple[Evidence, Verdict]:
    """What comes of a call that no process has a frame of, when its next retry claims it: why it is claimed, by its
    owner if that `lives`, and what the store says to a node that has the code which the call began with."""
    record, head = stored.record, stored.record.head
    gone = Evidence.OWNER if lives else Evidence.GONE
    evidence = Evidence.RELEASED if record.state is RecordState.RELEASED else gone
    who = NodeId(record.owner), Incarnation(record.incarnation), Boot(head.boot)
    claim = Claim(call, record.seen, evidence, *who, head.reentrant, max_attempts, 0.0)
    return evidence, apply(stored, claim, 0.0)[1].verdict


def has_other_code(record: Record, code: str) -> bool:
    """Whether a process that has `code` for a handler has other code than the call began with, which may be entered
    again."""
    head = record.head
    return not record.is_over and head.reentrant and head.code != code


def _serving(sight: Sight) -> NodeId | None:
    """A live node that serves the code that the call began with, if this process has other code and each waiting
    request may be passed on. A call always gets the same one of several. Nodes of one process end together, so one at
    this node's address doesn't count."""
    assert sight.stored is not None
    record, own = sight.stored.record, sight.leases.get(sight.me.node)
    if not has_other_code(record, sight.code) or not sight.may_offer:
        return None
    here = {"", "" if own is None else own.address}
    found = (
        node
        for node, item in sight.leases.items()
        if item.state == LIVE and item.serves(record.head.code) and item.address not in here
    )
    return first_by_digest(sight.call, found)


def heir(me: NodeId, order: Iterable[NodeId], addresses: Mapping[NodeId, str]) -> NodeId | None:
    """The node that carries a call on when this node no longer does; None if no other node is live.

    Args:
        me: this node.
        order: the live nodes, in the order in which the call would be theirs.
        addresses: the addresses of the nodes. Those of one process have one address, and end together.
    """
    return next((node for node in order if addresses[node] != addresses.get(me)), None)


def first_by_digest(call: CallId, nodes: Iterable[NodeId]) -> NodeId | None:
    """The node among `nodes` that a call always gets; None if there are none."""
    return min(nodes, key=lambda node: journal.digest(f"{call} {node}".encode()), default=None)


def _known(node: NodeId | None) -> NodeId:
    assert node is not None
    return node
