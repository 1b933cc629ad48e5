"""Node leases: the window, registering and renewing as a table."""

from __future__ import annotations

import pytest

from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_core.lease import (
    MARGIN,
    ROWS,
    Lease,
    LeaseCase,
    LeaseFinding,
    LeaseReply,
    NodeRecord,
    Renewal,
    boot_of,
    ends_this_process,
    is_open,
    proves_absences,
    register,
    renew,
    window_until,
)
from framehold_core.value import replace
from tests.kit.leases import changed

TTL = 5.0


def node(inc: str = "i1", boot: str = "b1", beat: int = 7, expires: float = 105.0) -> NodeRecord:
    """A node lease as the store holds it; it is 100 now."""
    return NodeRecord(NodeId("n1"), Incarnation(inc), Boot(boot), beat, "http://n1", "live", "code", "{}", expires)


WANTED = node(beat=9, expires=105.0)
REGISTER = {
    "absent": (None, Renewal.RENEWED),
    "ended": (node("i0", "b0", expires=100.0), Renewal.RENEWED),
    "the same registration again": (node(), Renewal.RENEWED),
    "another process under this name": (node(boot="b2"), Renewal.TAKEN),
    "another incarnation of this process": (node("i0", beat=9), Renewal.RENEWED),
    "a beat that was seen": (node(beat=9), Renewal.LAPSED),
    "a beat above it": (node(beat=10), Renewal.LAPSED),
}
RENEW = {
    "as acknowledged": (node(), 7, Renewal.RENEWED),
    "a renewal that was applied unheard": (node(beat=8), 7, Renewal.RENEWED),
    "a beat that was seen": (node(beat=9), 7, Renewal.LAPSED),
    "a beat above it": (node(beat=10), 7, Renewal.LAPSED),
    "absent": (None, 7, Renewal.LAPSED),
    "ended this instant": (node(expires=100.0), 7, Renewal.LAPSED),
    "another incarnation": (node("i2"), 7, Renewal.LAPSED),
    "the store went back": (node(beat=6), 7, Renewal.LAPSED),
    "another process": (node("i2", "b2"), 7, Renewal.TAKEN),
}


@pytest.mark.parametrize(("stored", "verdict"), REGISTER.values(), ids=REGISTER.keys())
def test_registering_takes_no_name_of_another_process(stored: NodeRecord | None, verdict: Renewal) -> None:
    result, got = register(stored, WANTED, TTL, 100.0)
    assert got is verdict
    assert result == (WANTED if verdict is Renewal.RENEWED else stored)


@pytest.mark.parametrize(("stored", "acknowledged", "verdict"), RENEW.values(), ids=RENEW.keys())
def test_renewing_extends_only_what_is_unbroken(stored: NodeRecord | None, acknowledged: int, verdict: Renewal) -> None:
    result, got = renew(stored, WANTED, acknowledged, TTL, 100.0)
    assert got is verdict
    if verdict is Renewal.RENEWED:
        assert result == WANTED
    else:
        assert result is None or result is stored


ENDS = {
    "now": (100.0, True),
    "before": (99.0, True),
    "in an instant": (100.001, False),
    "a TTL and its margin from now": (100.0 + TTL * (1 + MARGIN), False),
    "later": (100.001 + TTL * (1 + MARGIN), True),
}


@pytest.mark.parametrize(("end", "astray"), ENDS.values(), ids=ENDS.keys())
def test_no_lease_is_written_that_ends_astray(end: float, astray: bool) -> None:
    """A node whose measure of the store's clock is wrong is told so, whatever stands there; nothing is written."""
    wanted = replace(WANTED, expires=end)
    for stored in (None, node(), node(boot="b2")):
        for result, got in (register(stored, wanted, TTL, 100.0), renew(stored, wanted, 7, TTL, 100.0)):
            assert (got is Renewal.ASTRAY) is astray
            assert not astray or result is stored


TWINS = {
    "written after it registered": (90.0, 105.0, True),
    "ended": (90.0, 100.0, False),
    "written before it registered": (99.6, 105.0, False),
    "as late as one that was written before may end": (99.5, 105.0, False),
}


@pytest.mark.parametrize(("since", "end", "ends"), TWINS.values(), ids=TWINS.keys())
def test_only_a_process_that_came_later_ends_this_one(since: float, end: float, ends: bool) -> None:
    """Rule 4: the lease of a former life of the name, written again by somebody who has no key, ends nobody."""
    assert ends_this_process(node(boot="b2", expires=end), since, TTL, 100.0) is ends


HELD = Lease(NodeId("n1"), Incarnation("i1"), Boot("b1"), 7, until=104.0)
STANDS = b"what stands there"


def case(
    result: Renewal,
    stored: NodeRecord | None = None,
    *,
    sealed: bool = True,
    in_time: bool = True,
    found: bytes | None = None,
    since: float = 90.0,
) -> LeaseCase:
    """A reply at 100. `stored` is what stands there."""
    reply = LeaseReply(result, 100.0, stored, b"" if stored is None else STANDS)
    return LeaseCase(reply, HELD, sealed, in_time, found, since, TTL)


FINDINGS = {
    "written": (case(Renewal.RENEWED), LeaseFinding.RENEWED),
    "of a process that came later": (case(Renewal.TAKEN, node(boot="b2")), LeaseFinding.TAKEN),
    "the same, which was there first": (case(Renewal.TAKEN, node(boot="b2"), found=STANDS), LeaseFinding.HELD),
    "of a former life, before this one registered": (
        case(Renewal.TAKEN, node(boot="b2"), found=b"", since=99.6),
        LeaseFinding.HELD,
    ),
    "the same, once it has registered": (case(Renewal.TAKEN, node(boot="b2"), since=99.6), LeaseFinding.FOREIGN),
    "of a former life that ends this instant": (
        case(Renewal.TAKEN, node(boot="b2", expires=100.0), found=STANDS),
        LeaseFinding.FOREIGN,
    ),
    "of another boot, without a seal": (case(Renewal.TAKEN, node(boot="b2"), sealed=False), LeaseFinding.FOREIGN),
    "its own, without a seal": (case(Renewal.LAPSED, node(beat=6), sealed=False), LeaseFinding.FOREIGN),
    "an older one, which may have run out": (case(Renewal.LAPSED, node(beat=6), in_time=False), LeaseFinding.WENT_BACK),
    "none, though it can't have run out": (case(Renewal.LAPSED), LeaseFinding.WENT_BACK),
    "none, and it may have run out": (case(Renewal.LAPSED, in_time=False), LeaseFinding.LAPSED),
    "another incarnation with its beat": (case(Renewal.LAPSED, node("i2")), LeaseFinding.LAPSED),
    "a beat that it has not sent": (case(Renewal.LAPSED, node(beat=9)), LeaseFinding.LAPSED),
}


@pytest.mark.parametrize(("found", "finding"), FINDINGS.values(), ids=FINDINGS.keys())
def test_what_a_reply_says_of_the_lease(found: LeaseCase, finding: LeaseFinding) -> None:
    assert next(row.then for row in ROWS if row.holds(found)) is finding


def test_what_the_store_takes_before_a_process_registers_never_ends_it() -> None:
    """Whatever end it has: the store takes none that is further off, so the margins fit."""
    for end in (100.1, 103.0, 105.0, 105.5, 106.0):
        taken = register(None, node(boot="b0", expires=end), TTL, 100.0)[0]
        assert taken is None or not ends_this_process(taken, 100.0, TTL, 100.0)


def test_the_lives_of_a_node_are_in_order() -> None:
    """Of two names, the later one is that of the later life, whatever is drawn."""
    drawn = (b"\xff", b"\x00")
    names = [boot_of(now, drawn[place % 2]) for place, now in enumerate((0.0, 1.0, 1.5e9, 1.5e9 + 0.001, 4e9, 1e11))]
    assert names == sorted(names) and len(set(names)) == len(names)


def test_a_statement_says_every_field() -> None:
    """A lease that differs in any field but its seal, or is one of another namespace, says something else."""
    lease = node()
    said = {lease.statement("ns"), lease.statement("other")}
    said |= {changed(lease, field).statement("ns") for field in lease.__struct_fields__ if field != "seal"}
    assert len(said) == 2 + len(lease.__struct_fields__) - 1
    assert replace(lease, seal="x").statement("ns") == lease.statement("ns")


WINDOW = {
    "just renewed": (0.0, True),
    "between two renewals": (TTL / 3, True),
    "one renewal missed": (2 * TTL / 3, True),
    "just inside": (TTL * (1 - MARGIN) - 0.001, True),
    "at the margin": (TTL * (1 - MARGIN), False),
    "at the TTL": (TTL, False),
}


@pytest.mark.parametrize(("passed", "opened"), WINDOW.values(), ids=WINDOW.keys())
def test_the_window_counts_from_the_start_of_the_acknowledged_renewal(passed: float, opened: bool) -> None:
    """Rule 6. It closes before the store's TTL can, since the store counts from a later instant."""
    held = Lease(NodeId("n1"), Incarnation("i1"), Boot("b1"), 7, window_until(100.0, TTL))
    assert is_open(held, 100.0 + passed) is opened


def test_the_window_closes_before_a_lease_that_ends_early() -> None:
    """A node whose clock is slow gives its lease less than a TTL: what is left by the store's clock counts."""
    assert window_until(100.0, TTL, 2.0) == 100.0 + 2.0 - TTL * MARGIN
    assert window_until(100.0, TTL, TTL * (1 + MARGIN)) == window_until(100.0, TTL)


HELD = Lease(NodeId("n1"), Incarnation("i1"), Boot("b1"), 7, 104.5)
ABSENCES = {
    "its own lease as acknowledged": (node(), 100.0, True),
    "a renewal that was applied unheard": (node(beat=8), 100.0, True),
    "its own lease is gone": (None, 100.0, False),
    "another incarnation": (node("i0"), 100.0, False),
    "the store went back": (node(beat=6), 100.0, False),
    "renewed two thirds of a life ago": (node(), 100.0 + TTL * 2 / 3, True),
    "renewed longer ago": (node(), 100.1 + TTL * 2 / 3, False),
}


@pytest.mark.parametrize(("own", "now", "proved"), ABSENCES.values(), ids=ABSENCES.keys())
def test_an_absence_is_proved_by_a_read_that_lost_nothing(own: NodeRecord | None, now: float, proved: bool) -> None:
    """docs/protocol.md, rule 25."""
    assert proves_absences(own, HELD, 100.0, TTL, now) is proved
