"""A node that a token names is gone for good when it has been missed for as long as a lease lives."""

from __future__ import annotations

from framehold_core.ids import Boot, NodeId
from framehold_core.missing_nodes import MissingNodes

A, B = NodeId("a"), NodeId("b")


def test_a_node_is_missed_for_a_leases_life_before_it_is_gone() -> None:
    absences = MissingNodes(5.0)
    assert [absences.is_certain(A, {B}, now) for now in (100.0, 102.0, 104.9, 105.0, 130.0)] == [False] * 3 + [True] * 2
    assert not absences.is_certain(B, set(), 130.0), "each is missed on its own"


def test_a_node_that_is_there_needs_no_healer_and_is_missed_anew_when_it_goes() -> None:
    absences = MissingNodes(5.0)
    assert not absences.is_certain(A, {B}, 100.0)
    assert absences.is_certain(A, {A, B}, 103.0)
    assert [absences.is_certain(A, {B}, now) for now in (104.0, 108.0, 109.0)] == [False, False, True]


def test_an_owner_whose_lease_somebody_has_overwritten_may_live_for_a_leases_life() -> None:
    """Something else stands there, or the lease of an earlier life. One of a later life, and none, prove it gone."""
    for alive, doubtful in (({B: Boot("1")}, True), ({A: Boot("1")}, False), ({A: Boot("3")}, True)):
        doubts = MissingNodes(5.0)
        looks = [doubts.may_live(A, Boot("2"), alive, doubtful, now) for now in (100.0, 104.9, 105.0)]
        assert looks == [True, True, False]
    for alive in ({}, {A: Boot("3")}, {A: Boot("2")}):
        doubts = MissingNodes(5.0)
        assert doubts.may_live(A, Boot("2"), {}, True, 100.0)
        assert not doubts.may_live(A, Boot("2"), alive, False, 104.0)
        assert doubts.may_live(A, Boot("2"), {}, True, 106.0), "it was otherwise in between"


def test_a_look_of_long_ago_says_nothing() -> None:
    """The node may have come back and gone again since."""
    absences = MissingNodes(5.0)
    assert not absences.is_certain(A, set(), 100.0)
    assert not absences.is_certain(A, set(), 1000.0)
    assert absences.is_certain(A, set(), 1005.0)


def test_what_is_kept_is_bounded() -> None:
    absences = MissingNodes(5.0)
    for number in range(5000):
        absences.is_certain(NodeId(f"n{number}"), set(), 100.0)
    assert len(absences._seen) <= 1000
