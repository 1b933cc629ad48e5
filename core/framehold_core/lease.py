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
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from .ids import Boot, Incarnation, NodeId

LIVE = "live"
"""The state of a node that takes new calls."""
MARGIN = 0.1
"""Share of the TTL that the window gives away to scheduling and clock rate differences."""


class Lease(NamedTuple):
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


FORM = 2
"""The version of a lease's form, in the store and in its seal."""


class NodeRecord(NamedTuple):
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
        return json.dumps([FORM, namespace, round(self.expires * 1000), *self[:8]]).encode()


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


class LeaseReply(NamedTuple):
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


def ends_this_process(stored: NodeRecord, registered: float | None, ttl: float, now: float) -> bool:
    """Whether a lease of another boot under this node's name says that this process must not go on (rule 4). Its seal
    has been verified: somebody who writes the store may still have written an old lease again.

    A lease was written a TTL and its margin before its end, or later. So one that ends sooner than that after this
    process has registered was written before: the name was free since.

    Args:
        stored: the lease, written by a process with a key of the fleet.
        registered: when this process registered for the first time, in seconds on the store's clock; None before.
        ttl: for how many seconds a renewal counts.
        now: seconds on the store's clock.
    """
    return stored.expires > now and (registered is None or stored.expires > registered + ttl * (1.0 + MARGIN))
