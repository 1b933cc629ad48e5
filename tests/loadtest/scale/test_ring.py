"""The simulations of the scale, on small fleets of the real ring."""

import pytest

from framehold_core.ids import NodeId
from framehold_loadtest.scale import ring_sim
from framehold_loadtest.scale.costs import Costs
from framehold_loadtest.scale.ring_sim import Roll, names, ring_without
from framehold_loadtest.scale.storm import TRIP, Pace, storm
from framehold_router.routing import placement
from framehold_router.routing.placement import BOUND

pytestmark = pytest.mark.load

COSTS = Costs()
FREE = 0.0, 0.0, 0.0


def test_bounded_load_keeps_the_most_loaded_node_below_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a bound one of 200 nodes has more. Routers see what nodes hold a heartbeat late, and judge a node by the
    lower of two reports; a heartbeat brings a tenth of the calls."""
    seen, most = ring_sim.balance(200, 1, seed=3, calls=40), BOUND + 2 / 10
    assert seen.placed_most <= most
    assert 1 <= seen.draws < 2
    monkeypatch.setattr(placement, "BOUND", 9.0)
    assert ring_sim.balance(200, 1, seed=3, calls=40).placed_most > most


def test_who_is_next_on_the_ring_is_who_owns_the_key_without_the_nodes_before() -> None:
    """What the restart is followed with, against rings that are laid out without those nodes."""
    whole, gone = ring_without(40), names(40)[5:15]
    without = ring_without(40, gone)
    for number in range(500):
        key = f"{number:032x}"
        assert without.owner(key) == next(node for node in whole.order(key) if node not in gone)


def test_a_call_whose_node_restarts_is_replayed_once_and_relayed_at_most_once() -> None:
    """On a fleet that restarts node by node, one round in so many meets its own node's turn."""
    seen = ring_sim.rolling(20, 1, 1, FREE, Roll(away=20, think=10, calls=3_000))
    # A node's turn falls into the 10 s between two rounds with a probability of 10 / 400.
    assert seen.replayed == pytest.approx(10 / 400, rel=0.25)
    assert 0 < seen.relayed < seen.replayed
    assert seen.seconds == 400


def test_more_nodes_at_a_time_meet_more_rounds_in_less_time() -> None:
    one, five = (ring_sim.rolling(20, at_once, 1, FREE, Roll(think=5, calls=2_000)) for at_once in (1, 5))
    assert five.replayed > 2 * one.replayed and five.seconds == one.seconds / 5


def test_what_a_change_takes_longer_takes_more_of_each_process() -> None:
    """20 nodes, 10 ms each: 0.2 s at each of two changes of the ring every 20 s; and at each of three looks of a
    router, while a node looks at one."""
    seen = [ring_sim.rolling(20, 1, 1, prices, Roll(calls=10)) for prices in ((0.01, 0.0, 0.0), (0.0, 0.01, 0.0))]
    assert [one.node for one in seen] == pytest.approx([0.02, 0.0015])
    assert [one.router for one in seen] == pytest.approx([0.02, 0.03])


def test_what_the_store_is_asked_at_a_change_is_little_of_nodes_and_all_of_routers() -> None:
    """40 nodes read one lease each, and their router 40; three times in 20 s."""
    assert ring_sim.rolling(40, 1, 1, (0.0, 0.0, 1.0), Roll(calls=10)).store == pytest.approx(80 * 3 / 20)


def test_places_let_in_so_many_at_a_time() -> None:
    """Two places, a step of 1 s and 4 s of waiting for the store: a pair every 5 s."""
    pace = Pace(step=1.0, trip=4.0, places=2)
    assert pace.done([0.0] * 5) == [5.0, 6.0, 10.0, 11.0, 15.0]
    assert pace.rate == pytest.approx(0.4)


def test_a_node_is_never_faster_than_its_core() -> None:
    assert Pace(step=0.5, trip=0.0).done([0.0, 0.1, 9.0]) == [0.5, 1.0, 9.5]
    assert Pace(step=0.5, trip=0.0).rate == 2


def test_all_calls_of_the_dead_find_a_survivor_and_wait_for_the_lease() -> None:
    dead = ring_sim.zone(30)
    seen = storm(30, dead, True, TRIP, COSTS, seed=1)
    before, after = ring_without(30), ring_without(30, dead)
    gained = sum(after.shares()[node] - before.shares()[node] for node in after.nodes)
    assert gained == pytest.approx(sum(before.shares()[node] for node in dead))
    assert seen.calls == 100_000 and seen.mean == 5_000 < seen.most
    assert seen.p50 > 5 and seen.last > 5 + seen.most * COSTS.node_takeover


def test_users_who_answer_one_by_one_wait_for_nobody_but_the_lease() -> None:
    seen = storm(30, ring_sim.zone(30), False, TRIP, COSTS, seed=1)
    assert seen.limit == "the users" and seen.p50 < 0.1 and seen.p99 < 5.1


def test_a_slow_store_makes_the_places_the_limit() -> None:
    dead = [NodeId("node-0000")]
    fast, slow = (storm(3, dead, True, trip, COSTS, seed=1) for trip in (TRIP, 0.1))
    assert (fast.limit, slow.limit) == ("its core", "64 places")
    assert slow.last > 2 * fast.last - 5
