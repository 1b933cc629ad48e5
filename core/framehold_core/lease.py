"""Node leases as arithmetic on `now`.

A node's right to run frames without asking the store is a window on its own clock:

    until = start of the last acknowledged renewal + TTL - margin

It counts from the start, and not from the acknowledgement: the store counts from when it applied the renewal, which is
never before the start, so the window closes before the store's lease runs out.
A lease that was once absent stays absent (docs/protocol.md, rule 4): a node that finds its key gone, or another
incarnation, or a beat below the acknowledged one, has lapsed. It must take a new incarnation.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from .ids import Boot, Incarnation, NodeId

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


class NodeRecord(NamedTuple):
    """A node lease as the store holds it. `inc`, the incarnation, has the name of the stored format. `code` has the
    `code_names` of what the node serves. `expires` is in seconds on the store's clock."""

    node: NodeId
    inc: Incarnation
    boot: Boot
    beat: int
    address: str
    state: str
    code: str
    stats: str
    expires: float

    def serves(self, digest: str) -> bool:
        """Whether the node serves the code of this digest, as far as its lease names it."""
        return digest[:_CODE_CHARACTERS] in self.code.split()


class Renewal(Enum):
    """What came of registering or renewing a node lease."""

    RENEWED = "renewed"
    LAPSED = "lapsed"
    TAKEN = "taken"


def window_until(started: float, ttl: float) -> float:
    """When the window closes for a renewal that was sent at `started` (seconds) and acknowledged."""
    return started + ttl * (1.0 - MARGIN)


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


def register(stored: NodeRecord | None, wanted: NodeRecord, now: float) -> tuple[NodeRecord, Renewal]:
    """Register a node where no live record has its name, or an earlier incarnation of the same boot. A live record of
    the same incarnation is this registration, sent again."""
    if stored is None or stored.expires <= now or stored.boot == wanted.boot:
        return wanted, Renewal.RENEWED
    return stored, Renewal.TAKEN


def renew(
    stored: NodeRecord | None, wanted: NodeRecord, acknowledged: int, now: float
) -> tuple[NodeRecord | None, Renewal]:
    """Extend a lease that still exists. A stored beat below `acknowledged` means that the store went back, which is a
    lapse (rule 7)."""
    if stored is None or stored.expires <= now:
        return None, Renewal.LAPSED
    if stored.boot != wanted.boot:
        return stored, Renewal.TAKEN
    if stored.inc != wanted.inc or stored.beat < acknowledged:
        return stored, Renewal.LAPSED
    return wanted._replace(beat=stored.beat + 1), Renewal.RENEWED
