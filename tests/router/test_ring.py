"""The ring: who owns a key follows from the set of nodes alone, and little moves when the set changes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uhashring import HashRing

from framehold_core.ids import NodeId
from framehold_fleet.members import ring as module
from framehold_fleet.members.ring import POINTS, SPACE, TOGETHER, Change, Ring

names = st.from_regex(r"[0-9A-Za-z][0-9A-Za-z_-]{0,10}", fullmatch=True).map(NodeId)
fleets = st.sets(names, min_size=1, max_size=6)
keys = st.from_regex(r"[0-9A-Za-z-]{22,36}", fullmatch=True)


def fleet(count: int) -> list[NodeId]:
    return [NodeId(f"node-{number}") for number in range(count)]


PINNED = ["node-1", "node-3", "node-2", "node-0", "node-2", "node-1", "node-4", "node-1"]
SAMPLE = [sha256(str(number).encode()).hexdigest()[:32] for number in range(20_000)]


def crowded(text: str) -> int:
    """A hash that has 40 places: almost every point collides with those of other nodes."""
    return module.place(text) % 40 * (SPACE // 40)


def few(text: str) -> int:
    """A hash that has 4,000 places: points of two nodes meet now and then."""
    return module.place(text) % 4_000 * (SPACE // 4_000)


def test_the_owner_is_the_one_that_the_library_names() -> None:
    """`owner` and `order` take a short way through uhashring's lists, and arrive at the same node."""
    nodes = fleet(9)
    library = HashRing(nodes=sorted(nodes), hash_fn=module.place)
    ring = Ring(nodes)
    for key in SAMPLE[:2000]:
        assert ring.owner(key) == library.get_node(key)
    for key in SAMPLE[:50]:
        assert list(ring.order(key)) == list(library.iterate_nodes(key))


def test_a_key_on_a_point_and_behind_the_last_one_has_an_owner() -> None:
    """The ring is closed: what lies behind the last point belongs to the first."""
    places = {"a-0": 100, "b-0": 200, "on": 100, "between": 150, "below": 0, "behind": SPACE - 1}
    ring = Ring([NodeId("a"), NodeId("b")], lambda text: places.get(text, 100 if text.startswith("a-") else 200))
    found = {key: ring.owner(key) for key in ("on", "between", "below", "behind")}
    assert found == {"on": "b", "between": "b", "below": "a", "behind": "a"}
    assert ring.shares() == {"a": pytest.approx(1 - 100 / SPACE), "b": pytest.approx(100 / SPACE)}


@pytest.mark.parametrize("count", [2, 5, 10])
def test_a_node_that_joins_takes_its_part_and_moves_nothing_else(count: int) -> None:
    """About 1 in count + 1 keys goes to it; no key goes from one old node to another. Leaving is the reverse."""
    before, after = Ring(fleet(count)), Ring(fleet(count + 1))
    joined = f"node-{count}"
    moved = [key for key in SAMPLE if before.owner(key) != after.owner(key)]
    assert {after.owner(key) for key in moved} == {joined}
    assert all(after.owner(key) != joined for key in set(SAMPLE) - set(moved))
    assert len(moved) / len(SAMPLE) == pytest.approx(1 / (count + 1), rel=0.3)


@pytest.mark.parametrize("count", [1, 3, 10, 50])
def test_shares_are_even_and_true(count: int) -> None:
    ring = Ring(fleet(count))
    shares = ring.shares()
    assert sum(shares.values()) == pytest.approx(1.0)
    assert all(0.6 / count < share < 1.4 / count for share in shares.values())
    owned = Counter(map(ring.owner, SAMPLE))
    assert all(owned[node] / len(SAMPLE) == pytest.approx(share, abs=0.01) for node, share in shares.items())
    assert (ring.points, ring.points_of()) == (count * POINTS, dict.fromkeys(fleet(count), POINTS))


def test_an_empty_ring_has_no_owner() -> None:
    empty = Ring(())
    assert (empty.owner("key"), list(empty.order("key")), empty.shares(), empty.points_of()) == (None, [], {}, {})
    assert empty.moved(Ring(fleet(3))) == Ring(fleet(3)).moved(empty) == empty.moved(Ring(())) == 0.0


@settings(max_examples=40, deadline=None)
@given(fleets, keys)
def test_the_next_in_order_owns_the_key_when_those_before_are_gone(nodes: set[NodeId], key: str) -> None:
    order = list(Ring(nodes).order(key))
    assert sorted(order) == sorted(nodes)
    for gone in range(len(order)):
        assert Ring(order[gone:]).owner(key) == order[gone]


@settings(max_examples=40, deadline=None)
@given(fleets, st.randoms(use_true_random=False))
def test_the_order_of_joining_decides_nothing(nodes: set[NodeId], chance: random.Random) -> None:
    """Where points meet the smallest name has the place, not the one that joined last: two routers would disagree."""
    shuffled = chance.sample(sorted(nodes), len(nodes))
    assert Ring([*shuffled, *shuffled]) == Ring(nodes)
    assert Ring(shuffled, crowded) == Ring(sorted(nodes), crowded)
    assert Ring(fleet(3), crowded).points_of() == {"node-0": 40, "node-1": 0, "node-2": 0}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sets(names, max_size=6), min_size=2, max_size=5), st.sampled_from((module.place, crowded, few)))
def test_a_ring_that_follows_others_is_the_one_laid_out_at_once(
    views: list[set[NodeId]], hash_fn: Callable[[str], int]
) -> None:
    """Earlier members change nothing: a router that has run for a week agrees with one that has just begun."""
    ring = Ring((), hash_fn)
    for nodes in views:
        ring = Ring(nodes, hash_fn, ring)
        assert ring == Ring(nodes, hash_fn)
        assert ring.points_of() == Ring(nodes, hash_fn).points_of()


def test_only_who_joined_is_hashed() -> None:
    """The rest of a thousand nodes would keep every loop of the fleet from its work for half a second."""
    hashed: list[str] = []

    def counted(text: str) -> int:
        hashed.append(text.rpartition("-")[0])
        return module.place(text)

    before = Ring(fleet(20), counted)
    hashed.clear()
    after = Ring([*fleet(20)[3:], NodeId("new")], counted, before)
    assert Counter(hashed) == {"new": POINTS}
    hashed.clear()
    assert Ring(fleet(19)[3:], counted, after) == Ring(fleet(19)[3:])
    assert not hashed


def test_the_layout_is_a_contract() -> None:
    """Routers and nodes of two releases serve one fleet: these owners must never change."""
    ring = Ring(fleet(5))
    assert [ring.owner(key) for key in SAMPLE[:8]] == PINNED


@given(fleets, fleets)
@settings(max_examples=30, deadline=None)
def test_what_a_change_has_moved_is_what_has_another_owner(before: set[NodeId], after: set[NodeId]) -> None:
    old, new = Ring(before), Ring(after)
    sampled = sum(old.owner(key) != new.owner(key) for key in SAMPLE[:4000]) / 4000
    assert new.moved(old) == pytest.approx(sampled, abs=0.04)
    assert old.moved(new) == new.moved(old)


@given(fleets, names)
@settings(deadline=None)
def test_who_joins_takes_what_it_then_has(before: set[NodeId], joining: NodeId) -> None:
    """And who leaves gives it all away: the share says how much, to the last bit that a float has."""
    old, new = Ring(before), Ring(before | {joining})
    share = new.shares()[joining] if joining not in before else 0.0
    assert new.moved(old) == pytest.approx(share, abs=1e-12)
    assert Change.alone(old, new, 0.0).moved == Change.alone(new, old, 0.0).moved == new.moved(old)


def test_nodes_that_come_together_are_one_change() -> None:
    """So what has moved is compared with what all of them move at best. Those that come later are another change."""
    rings = [Ring(fleet(count)) for count in (1, 2, 3, 4)]
    first = Change.alone(rings[0], rings[1], 10.0)
    second = first.then(rings[2], 14.0)
    assert (second.moved, second.moved_together) == (rings[2].moved(rings[1]), rings[2].moved(rings[0]))
    for later in (10.0 + TOGETHER, 9.0):
        assert second.then(rings[3], later) == Change.alone(rings[2], rings[3], later)


def test_where_points_meet_only_what_has_another_owner_has_moved() -> None:
    old, new = (Ring(fleet(count), crowded) for count in (3, 4))
    moved = sum(old._up_to(end) != new._up_to(end) for end in range(0, SPACE, SPACE // 40))
    assert new.moved(old) == pytest.approx(moved / 40)
