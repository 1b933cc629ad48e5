"""Node leases as arithmetic on `now`.

A node's right to run frames without asking the store is a window on its own clock:

    until = start of the last acknowledged renewal + TTL - margin

It counts from the start, and not from the acknowledgement: the store counts from when it applied the renewal, which is
never before the start, so the window closes before the store's lease runs out.
A lease that was once absent stays absent (docs/protocol.md, rule 4): a node that finds its key gone, or another
incarnation, or a beat below the acknowledged one, has lapsed. It must take a new incarnation.

The node itself counts its beats and says when its lease ends, on the store's clock: the seal of a lease covers all of
its fields, and the store has no key. The store refuses a beat that it has seen, and an end that is too far off.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from enum import Enum

from .ids import Boot, Incarnation, NodeId
from .value import Value, astuple, replace

LIVE = "live"
"""The state of a node that takes new calls."""
MARGIN = 0.1
"""Share of the TTL that the window gives away to scheduling and clock rate differences."""


class Lease(Value):
    """What a node knows of its own lease. Its window is open until `until`, in seconds on the node's clock."""

    node: NodeId
    incarnation: Incarnation
    boot: Boot
    beat: int
    until: float


MAX_CODES = 64
"""How many codes a lease names at most."""
_CODE_CHARACTERS = 8
"""How many characters of each digest a lease has. Equal beginnings of two digests do no harm: the node compares the
digests itself (docs/protocol.md, rule 28)."""


def code_names(digests: Iterable[str]) -> str:
    """The codes that a node serves, as its lease names them: the beginnings of their digests, each once."""
    return " ".join(sorted({digest[:_CODE_CHARACTERS] for digest in digests if digest})[:MAX_CODES])


FORM = 1
"""The version of a lease's form, in the store and in its seal."""


class NodeRecord(Value):
    """A node lease as the store holds it. `inc`, the incarnation, has the name of the stored format. `code` has the
    `code_names` of what the node serves. `expires` is in seconds on the store's clock, in whole milliseconds. `seal`
    shows that a process with a key of the fleet wrote all the other fields; it is empty where there are no keys."""

    node: NodeId
    inc: Incarnation
    boot: Boot
    beat: int
    address: str
    state: str
    code: str
    stats: str
    expires: float
    seal: str = ""

    def serves(self, digest: str) -> bool:
        """Whether the node serves the code of this digest, as far as its lease names it."""
        return digest[:_CODE_CHARACTERS] in self.code.split()

    def statement(self, namespace: str) -> bytes:
        """What the seal of this lease is made over: the version of the form, the namespace, and all fields but the
        seal."""
        return json.dumps([FORM, namespace, round(self.expires * 1000), *astuple(self)[:8]]).encode()


def boot_of(now: float, fresh: bytes) -> Boot:
    """The name of the life of a process that begins at `now` (seconds since 1970). Those of one node are in the order
    of their times, as texts: a lease of an earlier life does not show that a later one is over."""
    return Boot(f"{max(0, round(now * 1000)):012x}{fresh.hex()}")


def no_lease(node: NodeId) -> NodeRecord:
    """What a reader gets for an entry under the name of a node that is no lease, or has ended: no seal fits it."""
    return NodeRecord(node, Incarnation(""), Boot(""), 0, "", "", "", "", 0.0)


class Renewal(Enum):
    """What came of registering or renewing a node lease. ASTRAY: its end is no time at which a lease may end, so the
    node's measure of the store's clock is wrong."""

    RENEWED = "renewed"
    LAPSED = "lapsed"
    TAKEN = "taken"
    ASTRAY = "astray"


class LeaseReply(Value):
    """The store's reply to a registration or renewal. `at` is the time on the store's clock, in seconds. If the lease
    was refused, `stored` is what stands under its name: None if that can't be read, or if nothing does. `raw` has the
    bytes of it, empty if nothing stands there."""

    result: Renewal
    at: float
    stored: NodeRecord | None = None
    raw: bytes = b""


def end_of(now: float, ttl: float) -> float:
    """The end of a lease that is written at `now` (seconds on the store's clock), in whole milliseconds."""
    return math.ceil((now + ttl) * 1000) / 1000


def window_until(started: float, ttl: float, left: float = math.inf) -> float:
    """When the window closes for a renewal that was sent at `started` (seconds) and acknowledged when its lease had
    `left` seconds to run on the store's clock."""
    return started + min(ttl * (1.0 - MARGIN), left - ttl * MARGIN)


def longest_round_trip(ttl: float, timeout: float) -> float:
    """The longest round trip to the store, in seconds, with which a node works.

    A request that waits for the batch before it takes two round trips, and has `timeout` for both. The window of a
    lease ends half a round trip early (`left` of `window_until`), and must last until the next renewal is acknowledged:
    that leaves TTL / 3 after this one was, and takes a round trip itself.
    """
    return round(min(timeout / 2, ttl * (1.0 - MARGIN - 1 / 3) / 2.5), 4)


def is_alone(lease: Lease) -> bool:
    """Whether a process shares no store with others: then it has no lease that could be lost."""
    return lease.until == math.inf


def is_open(lease: Lease, now: float) -> bool:
    """Whether the node may still run and reply without asking the store."""
    return now < lease.until


def proves_absences(own: NodeRecord | None, held: Lease, renewed_at: float, ttl: float, now: float) -> bool:
    """Whether a lease that is missing in a read proves that its node is gone (docs/protocol.md, rule 25).

    Args:
        own: this node's own lease in the same read.
        held: this node's lease as it was acknowledged before the read.
        renewed_at: when the last acknowledged renewal was sent, in seconds on the node's clock.
        ttl: for how many seconds a renewal counts. Every node renews each third of it.
        now: seconds on the node's clock.
    """
    is_there = own is not None and own.inc == held.incarnation and own.beat >= held.beat
    return is_there and now <= renewed_at + ttl * 2 / 3


def is_astray(expires: float, ttl: float, now: float) -> bool:
    """Whether a lease may not end at `expires`: that is over, or further off than a TTL and its margin. The margin is
    for the error of the node's measure of the store's clock."""
    return not now < expires <= now + ttl * (1.0 + MARGIN)


def register(
    stored: NodeRecord | None, wanted: NodeRecord, ttl: float, now: float
) -> tuple[NodeRecord | None, Renewal]:
    """Register a node where no live record has its name, or an earlier incarnation of the same boot. A live record of
    the same incarnation with a lower beat is this registration, sent again."""
    if is_astray(wanted.expires, ttl, now):
        return stored, Renewal.ASTRAY
    if stored is None or stored.expires <= now:
        return wanted, Renewal.RENEWED
    if stored.boot != wanted.boot:
        return stored, Renewal.TAKEN
    if stored.inc == wanted.inc and stored.beat >= wanted.beat:
        return stored, Renewal.LAPSED
    return wanted, Renewal.RENEWED


def renew(
    stored: NodeRecord | None, wanted: NodeRecord, acknowledged: int, ttl: float, now: float
) -> tuple[NodeRecord | None, Renewal]:
    """Extend a lease that still exists. A stored beat below `acknowledged` means that the store went back, which is a
    lapse (rule 7). So is one that is not below the wanted one: another process writes in this one's name."""
    if is_astray(wanted.expires, ttl, now):
        return stored, Renewal.ASTRAY
    if stored is None or stored.expires <= now:
        return None, Renewal.LAPSED
    if stored.boot != wanted.boot:
        return stored, Renewal.TAKEN
    if stored.inc != wanted.inc or not acknowledged <= stored.beat < wanted.beat:
        return stored, Renewal.LAPSED
    return wanted, Renewal.RENEWED


def ends_this_process(stored: NodeRecord, since: float, ttl: float, now: float) -> bool:
    """Whether a lease of another boot under this node's name says that this process must not go on (rule 4). Its seal
    has been verified: somebody who writes the store may still have written an old lease again.

    A lease was written a TTL and its margin before its end, or later. So one that ends sooner than that after `since`
    was written before, by a process that may have ended then.

    Args:
        stored: the lease, written by a process with a key of the fleet.
        since: when this process registered for the first time, or when it first asked for the name, in seconds on the
            store's clock.
        ttl: for how many seconds a renewal counts.
        now: seconds on the store's clock.
    """
    return stored.expires > now and stored.expires > since + ttl * (1.0 + MARGIN)


class LeaseFinding(Enum):
    """What a reply says of a node's own lease."""

    RENEWED = "it was written"
    TAKEN = "another process has the name: this one must not go on"
    HELD = "a lease stands there whose process may have ended: this one waits before it registers"
    FOREIGN = "somebody else has written in its place, without a key of the fleet, or an old lease again"
    WENT_BACK = "the store went back to an older state"
    LAPSED = "it is not as it was written"


class LeaseCase(Value):
    """A reply to a registration or renewal, with what the rows ask about it. `held` is the lease as acknowledged until
    then, `is_sealed` says whether the seal of what stands there holds, `in_time` whether the lease can't have run out,
    `found` is the lease that a process which has not registered yet found first; None once it has registered. `since`
    and `ttl` are those of `ends_this_process`."""

    reply: LeaseReply
    held: Lease
    is_sealed: bool
    in_time: bool
    found: bytes | None
    since: float
    ttl: float

    @property
    def is_taken(self) -> bool:
        """Whether the lease that stands there is of another process, and says that this one must not go on. One that
        has stood there since this process began does not, whatever the store's clock has done meanwhile."""
        stored = self._of_another
        if stored is None or self.reply.raw == self.found:
            return False
        return ends_this_process(stored, self.since, self.ttl, self.reply.at)

    @property
    def is_held(self) -> bool:
        """Whether the lease that stands there may be that of a former life of this process, and has not ended."""
        return self.found is not None and self._of_another is not None and self._of_another.expires > self.reply.at

    @property
    def _of_another(self) -> NodeRecord | None:
        """The lease that stands there, if a process with a key of the fleet has written it under another boot."""
        return self.reply.stored if self.reply.result is Renewal.TAKEN and self.is_sealed else None

    @property
    def is_foreign(self) -> bool:
        """Whether this process has not written what stands there."""
        stored = self.reply.stored
        is_own = stored is not None and stored.boot == self.held.boot and self.is_sealed
        return bool(self.reply.raw) and not is_own

    @property
    def went_back(self) -> bool:
        """Whether an older lease of this process stands there, or none before the last one can have run out."""
        beat = 0 if self.reply.stored is None else self.reply.stored.beat
        return beat < self.held.beat and (beat > 0 or self.in_time)


class LeaseRow(Value):
    """One line of the table. `rule` is the rule of docs/protocol.md that it carries out."""

    rule: int
    holds: Callable[[LeaseCase], bool]
    then: LeaseFinding


ROWS: tuple[LeaseRow, ...] = (
    LeaseRow(6, lambda case: case.reply.result is Renewal.RENEWED, LeaseFinding.RENEWED),
    LeaseRow(4, lambda case: case.is_taken, LeaseFinding.TAKEN),
    LeaseRow(4, lambda case: case.is_held, LeaseFinding.HELD),
    LeaseRow(4, lambda case: case.is_foreign, LeaseFinding.FOREIGN),
    LeaseRow(7, lambda case: case.went_back, LeaseFinding.WENT_BACK),
    LeaseRow(4, lambda _: True, LeaseFinding.LAPSED),
)
"""What a reply says of the lease; the first row that holds decides."""


class Heard(Value):
    """What follows from a reply: `over` is what a new incarnation is to be registered over at once; None if nothing is
    to be sent before the next heartbeat."""

    finding: LeaseFinding
    over: bytes | None = None


_LATE = 1.0
"""Seconds within which the last renewal of a process that has ended reaches the store, if it ever does."""
SILENT_PAUSE = 1.0
"""Most seconds between two heartbeats while the store doesn't answer: a node registers soon after it is back."""


class Tenure:
    """A node's hold on its own lease, as a machine: it is fed what became of each heartbeat, and says what the node may
    rely on. Whoever drives it sends what `wanted` gives, one at a time: a registration until `is_registered`, then
    renewals; then it calls `heard` or `silent`. Times are in seconds on the node's clock, those named `at` on the
    store's. `fresh` makes the name of an incarnation."""

    def __init__(self, node: str, boot: Boot, ttl: float, now: float, fresh: Callable[[], str]) -> None:
        self.lease = Lease(NodeId(node), Incarnation(fresh()), boot, 0, -math.inf)
        """The lease as the node may rely on it now."""
        self.is_registered = False
        self.claims_from = -math.inf
        """Before this time the node claims no call: the store went back to an older state (docs/protocol.md,
        rule 7)."""
        self.missing_from = -math.inf
        """Before this time a missing lease does not prove that its node is gone: leases ran out while the store was
        away, and each node registers again with its next heartbeat (docs/protocol.md, rule 25). Endless while the store
        does not answer."""
        self.doubts = 0
        """How often the store may have gone back to an older state: it was silent, or the lease lapsed
        (docs/protocol.md, rule 7). Whenever it has risen, the node compares its frames with the store."""
        self.renewed_at: float | None = now
        """When the last successful heartbeat was sent; before the first one, when this object was made."""
        self.since: float | None = None
        """When this process registered first, on the store's clock; before that, when it first found its name held,
        and `_LATE`. What was written under its name before does not end it."""
        self.found: bytes | None = b""
        """The lease that was found when the name was first found held; None once this process has registered."""
        self.ttl = ttl
        self._fresh = fresh
        self._beats = 0
        """The beat of the last lease that was written, whether the store answered or not."""

    def wanted(self, at: float, address: str, state: str, code: str, stats: str) -> NodeRecord:
        """The lease to register or renew, without a seal. Each has a beat of its own."""
        self._beats += 1
        held, ends = self.lease, end_of(at, self.ttl)
        return NodeRecord(held.node, held.incarnation, held.boot, self._beats, address, state, code, stats, ends)

    def silent(self) -> None:
        """The store did not answer. That closes no window: it runs out at its time."""
        self.missing_from = math.inf

    def heard(
        self, wanted: NodeRecord, reply: LeaseReply, is_sealed: bool, over: bytes, started: float, now: float
    ) -> Heard:
        """The store has answered.

        Args:
            wanted: the lease as it was sent.
            reply: the reply. It is not ASTRAY.
            is_sealed: whether a process with a key of the fleet has written what stands there.
            over: what the lease was to be registered over; empty if nothing was.
            started: when the heartbeat was sent.
            now: when its reply came.
        """
        if self.missing_from == math.inf:
            self._doubt(now)
        assert self.renewed_at is not None, "a process that shares its store with nobody hears nothing"
        in_time = now < self.renewed_at + self.ttl
        since, found = (reply.at + _LATE, reply.raw) if self.since is None else (self.since, self.found)
        case = LeaseCase(reply, self.lease, is_sealed, in_time, found, since, self.ttl)
        finding = next(row.then for row in ROWS if row.holds(case))
        if finding is LeaseFinding.RENEWED:
            self._renew(wanted, reply.at, started)
            return Heard(finding)
        self.lease = replace(self.lease, until=-math.inf)
        if finding is LeaseFinding.HELD:
            self.since, self.found = since, found
        if finding in (LeaseFinding.HELD, LeaseFinding.TAKEN):
            return Heard(finding)
        if finding is LeaseFinding.WENT_BACK:
            self.claims_from = now + self.ttl
        self._doubt(now)
        self.begin_anew()
        # What was replaced once already is left to the next heartbeat.
        return Heard(finding, None if over else reply.raw)

    def _renew(self, wanted: NodeRecord, at: float, started: float) -> None:
        until = window_until(started, self.ttl, wanted.expires - at)
        self.lease = replace(self.lease, beat=wanted.beat, until=until)
        self.is_registered, self.renewed_at = True, started
        if self.found is not None:
            self.found, self.since = None, at

    def _doubt(self, now: float) -> None:
        """The store may be another server now, or an older state, and the other leases may be gone."""
        self.missing_from = now + self.ttl
        self.doubts += 1

    def begin_anew(self) -> None:
        """Take a new incarnation. It is not registered yet."""
        self.lease = replace(self.lease, incarnation=Incarnation(self._fresh()), beat=0, until=-math.inf)
        self.is_registered = False

    @property
    def pause(self) -> float:
        """Seconds from the end of one heartbeat to the next."""
        return self.ttl / 3 if self.missing_from < math.inf else min(self.ttl / 3, SILENT_PAUSE)

    def claims(self, now: float) -> bool:
        """Whether the node claims calls."""
        return now >= self.claims_from

    def believes_absences(self, own: NodeRecord | None, held: Lease, now: float) -> bool:
        """Whether a lease that is missing in a read proves that its node is gone. `own` is this node's lease in that
        read, `held` what `lease` was before it."""
        if self.renewed_at is None:
            return is_alone(self.lease)
        return now >= self.missing_from and proves_absences(own, held, self.renewed_at, self.ttl, now)
