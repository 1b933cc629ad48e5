"""Node leases: the window, registering and renewing as a table."""

from __future__ import annotations

import pytest

from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_core.lease import (
    MARGIN,
    Lease,
    NodeRecord,
    Renewal,
    is_open,
    proves_absences,
    register,
    renew,
    window_until,
)

TTL = 5.0


def node(inc: str = "i1", boot: str = "b1", beat: int = 7, expires: float = 105.0) -> NodeRecord:
    """A node lease as the store holds it; it is 100 now."""
    return NodeRecord(NodeId("n1"), Incarnation(inc), Boot(boot), beat, "http://n1", "live", "code", "{}", expires)


WANTED = node(beat=0, expires=105.0)
REGISTER = {
    "absent": (None, Renewal.RENEWED),
    "ended": (node("i0", "b0", expires=100.0), Renewal.RENEWED),
    "the same registration again": (node(), Renewal.RENEWED),
    "another process under this name": (node(boot="b2"), Renewal.TAKEN),
    "another incarnation of this process": (node("i0"), Renewal.RENEWED),
}
RENEW = {
    "as acknowledged": (node(), 7, Renewal.RENEWED),
    "a renewal that was applied unheard": (node(beat=8), 7, Renewal.RENEWED),
    "absent": (None, 7, Renewal.LAPSED),
    "ended this instant": (node(expires=100.0), 7, Renewal.LAPSED),
    "another incarnation": (node("i2"), 7, Renewal.LAPSED),
    "the store went back": (node(beat=6), 7, Renewal.LAPSED),
    "another process": (node("i2", "b2"), 7, Renewal.TAKEN),
}


@pytest.mark.parametrize(("stored", "verdict"), REGISTER.values(), ids=REGISTER.keys())
def test_registering_takes_no_name_of_another_process(stored: NodeRecord | None, verdict: Renewal) -> None:
    result, got = register(stored, WANTED, 100.0)
    assert got is verdict
    assert result == (WANTED if verdict is Renewal.RENEWED else stored)


@pytest.mark.parametrize(("stored", "acknowledged", "verdict"), RENEW.values(), ids=RENEW.keys())
def test_renewing_extends_only_what_is_unbroken(stored: NodeRecord | None, acknowledged: int, verdict: Renewal) -> None:
    result, got = renew(stored, WANTED, acknowledged, 100.0)
    assert got is verdict
    if verdict is Renewal.RENEWED:
        assert stored is not None and result == WANTED._replace(beat=stored.beat + 1)
    else:
        assert result is None or result is stored


def test_a_lease_that_ended_is_gone_for_whoever_renews_it() -> None:
    """Rule 4 of docs/protocol.md: absence of an incarnation is permanent; renewing brings nothing back."""
    assert renew(node(expires=99.0), WANTED, 7, 100.0) == (None, Renewal.LAPSED)


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
