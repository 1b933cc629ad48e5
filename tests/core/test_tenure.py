"""A node's hold on its own lease: what a reply says of it, and what the node may rely on then."""

from __future__ import annotations

import math
from itertools import count

import pytest

from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_core.lease import MARGIN, Heard, Lease, LeaseFinding, LeaseReply, NodeRecord, Renewal, Tenure, is_open
from framehold_core.value import replace

TTL = 6.0
AT = 5000.0
"""The store's clock where the node's is 0."""


class Node(Tenure):
    """A node whose clock the test turns."""

    def __init__(self) -> None:
        names = count(1)
        super().__init__("n1", Boot("b1"), TTL, 0.0, lambda: f"i{next(names)}")

    def beat(
        self, now: float, result: Renewal = Renewal.RENEWED, stored: NodeRecord | None = None, over: bytes = b""
    ) -> Heard:
        """One heartbeat, sent at `now` and answered at once. A lease without a seal has a bad one."""
        wanted = self.wanted(AT + now, "", "live", "", "")
        reply = LeaseReply(result, AT + now, stored, b"" if stored is None else b"what stands there %d" % stored.beat)
        return self.heard(wanted, reply, stored is not None and stored.seal != "bad", over, now, now)

    def own(self, beat: int, boot: str = "b1", seal: str = "", ends: float = 90.0) -> NodeRecord:
        """A lease under the node's name."""
        at = AT + ends
        return NodeRecord(NodeId("n1"), self.lease.incarnation, Boot(boot), beat, "", "live", "", "", at, seal)


@pytest.fixture
def node() -> Node:
    """A node that has registered at 0, and renewed at 2 with its second beat."""
    made = Node()
    assert made.beat(0.0).finding is made.beat(2.0).finding is LeaseFinding.RENEWED
    return made


REPLIES = {
    "renewed": (4.0, Renewal.RENEWED, None, LeaseFinding.RENEWED),
    "a later process": (4.0, Renewal.TAKEN, ("b2", 1, ""), LeaseFinding.TAKEN),
    "a process that nobody has sealed": (4.0, Renewal.TAKEN, ("b2", 1, "bad"), LeaseFinding.FOREIGN),
    "its own, changed": (4.0, Renewal.LAPSED, ("b1", 1, "bad"), LeaseFinding.FOREIGN),
    "its own, with an older beat": (4.0, Renewal.LAPSED, ("b1", 1, ""), LeaseFinding.WENT_BACK),
    "nothing, before it ran out": (7.9, Renewal.LAPSED, None, LeaseFinding.WENT_BACK),
    "nothing, the instant at which it ran out": (8.0, Renewal.LAPSED, None, LeaseFinding.LAPSED),
    "nothing, after it ran out": (8.1, Renewal.LAPSED, None, LeaseFinding.LAPSED),
    "its own, with a beat that it has not reached": (4.0, Renewal.LAPSED, ("b1", 9, ""), LeaseFinding.LAPSED),
}


@pytest.mark.parametrize(("at", "result", "there", "finding"), REPLIES.values(), ids=REPLIES)
def test_what_a_reply_says_of_the_lease(
    node: Node, at: float, result: Renewal, there: tuple[str, int, str] | None, finding: LeaseFinding
) -> None:
    """Only what was renewed leaves the window open; whoever has lapsed registers anew, over what stands there."""
    before = node.lease
    stored = None if there is None else node.own(there[1], there[0], there[2])
    heard = node.beat(at, result, stored)
    assert heard.finding is finding
    assert is_open(node.lease, at) is (finding is LeaseFinding.RENEWED)
    has_lapsed = finding not in (LeaseFinding.RENEWED, LeaseFinding.TAKEN)
    assert heard.over == (None if not has_lapsed else b"" if there is None else b"what stands there %d" % there[1])
    assert (node.lease.incarnation != before.incarnation) is has_lapsed and node.doubts == has_lapsed


def test_a_former_life_of_the_name_ends_nobody(node: Node) -> None:
    """Its lease ends sooner than one that was written after this process had registered (docs/protocol.md, rule 4)."""
    late = TTL * (1 + MARGIN)
    assert node.beat(4.0, Renewal.TAKEN, node.own(1, "b0", ends=late)).finding is LeaseFinding.FOREIGN
    assert node.beat(4.0, Renewal.TAKEN, node.own(1, "b2", ends=late + 0.1)).finding is LeaseFinding.TAKEN


def test_a_process_that_has_not_registered_waits_for_its_former_life() -> None:
    """However long that lasts: the store's clock may have been set back. A lease that is written meanwhile is another
    process's, unless it was under way already."""
    new, late = Node(), 1.0 + TTL * (1 + MARGIN)
    for now in (0.5, 9.0):
        assert new.beat(now, Renewal.TAKEN, new.own(1, "b0", ends=99.0)) == Heard(LeaseFinding.HELD)
        assert not is_open(new.lease, now) and new.doubts == 0
    assert new.beat(4.0, Renewal.TAKEN, new.own(2, "b0", ends=0.5 + late)).finding is LeaseFinding.HELD
    assert new.beat(4.0, Renewal.TAKEN, new.own(2, "b0", ends=0.6 + late)).finding is LeaseFinding.TAKEN
    assert new.beat(5.0).finding is LeaseFinding.RENEWED
    assert new.beat(6.0, Renewal.TAKEN, new.own(2, "b0", ends=0.6 + late)).finding is LeaseFinding.FOREIGN
    assert new.beat(6.0, Renewal.TAKEN, new.own(1, "b2", ends=5.1 + TTL * (1 + MARGIN))).finding is LeaseFinding.TAKEN


def test_what_was_replaced_once_is_left_to_the_next_heartbeat(node: Node) -> None:
    """Somebody who writes all the time keeps no node busy."""
    assert node.beat(4.0, Renewal.TAKEN, node.own(1, "b2", "bad"), b"other bytes") == Heard(LeaseFinding.FOREIGN)


def test_a_node_whose_store_went_back_claims_nothing_for_a_leases_life(node: Node) -> None:
    """It goes by its next lease as well (docs/protocol.md, rule 7). What somebody else writes is no such reason."""
    node.beat(3.0, Renewal.LAPSED, node.own(1, seal="bad"))
    assert node.claims(3.0)
    node.beat(3.0)
    node.beat(4.0, Renewal.LAPSED, node.own(1))
    node.beat(4.0)
    assert is_open(node.lease, 5.0)
    assert not node.claims(3.9 + TTL) and node.claims(4.0 + TTL)


@pytest.mark.parametrize("reason", ["silence", "lapse"])
def test_a_missing_lease_proves_nothing_for_a_leases_life(node: Node, reason: str) -> None:
    """After a silence, and after a lapse (docs/protocol.md, rule 25)."""

    def believes(now: float) -> bool:
        return node.believes_absences(node.own(node.lease.beat), node.lease, now)

    assert believes(2.0)
    if reason == "silence":
        node.silent()
        assert not believes(99.0) and node.pause == 1.0
    else:
        node.beat(4.0, Renewal.LAPSED)
    for now in (4.0, 6.0, 8.0, 9.9):
        node.beat(now)
        assert not believes(now) and node.pause == TTL / 3
    node.beat(10.0)
    assert believes(10.0) and node.doubts == 1


def test_a_read_that_lacks_the_nodes_own_lease_proves_nothing(node: Node) -> None:
    """What it has lost of this node it may have lost of others."""
    assert node.believes_absences(node.own(2), node.lease, 2.0)
    assert not node.believes_absences(None, node.lease, 2.0) and not node.believes_absences(
        node.own(1), node.lease, 2.0
    )


def test_a_process_without_others_believes_each_absence() -> None:
    """It shares its store with nobody."""
    alone = Node()
    alone.lease, alone.renewed_at = replace(alone.lease, until=math.inf), None
    assert alone.believes_absences(None, Lease(NodeId("n1"), Incarnation(""), Boot(""), 1, 0.0), 0.0)
