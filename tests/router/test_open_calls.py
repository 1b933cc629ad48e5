"""The account of open calls: every figure with its age, no call in two of them, and the sum is all that is open."""

from __future__ import annotations

from typing import Any

from framehold_fleet.models.events import EndView, TakeoverView
from framehold_fleet.models.nodes import NodeView
from framehold_fleet.models.open_calls import FigureView, OpenView, ScanView
from framehold_router.collect.fleet_log import FleetPast, LostCalls
from framehold_router.collect.open_calls import account
from framehold_router.verdict.wording import worded

NOW = 1_000.0
SCAN = ScanView(began=980.0, at=985.0, looked=70, orphaned=20, handed_off=10)


def node(name: str, **figures: Any) -> NodeView:
    life = {"node_id": name, "incarnation": "i", "boot": f"b-{name}", "state": "live", "address": "x", "at": NOW - 1}
    return NodeView.model_validate({**life, **figures})


def end(name: str, gone: float, **figures: Any) -> EndView:
    life = {"node_id": name, "boot": f"b-{name}", "state": "live", "left": False, "last_heartbeat": gone - 15}
    return EndView.model_validate({**life, "detected": gone + 1, "gone": gone, **figures})


def taken(name: str, at: float, reason: str = "died") -> TakeoverView:
    life = {"from_node": name, "from_boot": f"b-{name}", "to_node": "a", "epoch": 1, "asked": at, "claimed": at}
    return TakeoverView.model_validate({"call": "c", "tool": "t", "reason": reason, **life})


def logged(
    *ends: EndView, taken: tuple[TakeoverView, ...] = (), here: str = "a", losses: tuple[LostCalls, ...] = ()
) -> FleetPast:
    lives = frozenset((name, f"b-{name}") for name in here)
    return FleetPast(ends={(one.node_id, one.boot): one for one in ends}, takeovers=taken, here=lives, losses=losses)


def figures(view: OpenView) -> tuple[tuple[int, str], ...]:
    assert view.total == sum(one.count for one in (view.held, view.asleep, view.handed_off, view.orphaned))
    return tuple((one.count, one.known) for one in (view.held, view.asleep, view.handed_off, view.orphaned))


def test_before_the_first_scan_no_age_is_claimed() -> None:
    view = account([node("a", frames=5, asleep=2)], logged(), NOW)
    assert figures(view) == ((5, "counted"), (2, "counted"), (0, "counted"), (0, "counted"))
    assert (view.held.at, view.orphaned, view.looked) == (NOW - 1, FigureView(), None)
    silent = node("b", state="unreachable", parked=3, in_flight=1, asleep=2, at=None)
    view = account([node("a", frames=1), silent], logged(here="ab"), NOW)
    assert figures(view)[:2] == ((5, "estimated"), (2, "estimated"))


def test_a_death_counts_at_once_and_the_next_scan_replaces_it() -> None:
    """The last lease says how many calls may go on elsewhere. A scan that began after that has counted them."""
    died = end("b", 990.0, orphaned=30)
    nodes = [node("a", frames=5, scan=SCAN)]
    taken_since = (taken("b", 995.0), taken("c", 996.0))
    view = account(nodes, logged(died, taken=taken_since), NOW)
    assert view.orphaned == FigureView(count=20 - 1 + 30 - 1, known="estimated", at=985.0)
    later = SCAN.model_copy(update={"began": 991.0, "at": 996.0, "orphaned": 49})
    view = account([node("a", frames=5, scan=later)], logged(died, taken=taken_since), NOW)
    assert view.orphaned == FigureView(count=49, known="up_to", at=996.0)


def test_what_is_handed_off_is_known_from_its_node_then_from_its_last_lease_then_from_a_scan() -> None:
    """The last lease is of before the drain: what a node held then is handed off, whatever its takeover says."""
    draining = node("b", frames=1, released=40, state="draining")
    returned = (taken("b", 995.0, "released"),)
    view = account([node("a", scan=SCAN), draining], logged(taken=returned, here="ab"), NOW)
    assert figures(view)[2] == (10 + 39, "counted")
    left = end("b", 999.0, left=True, released=41)
    view = account([node("a", scan=SCAN)], logged(left, taken=returned), NOW)
    assert figures(view)[2] == (10 + 40, "estimated")
    left = end("b", 990.0, left=True, orphaned=30, released=2)
    view = account([node("a", scan=SCAN)], logged(left, taken=(*returned, taken("b", 997.0))), NOW)
    assert figures(view)[2:] == ((10 + 32 - 2, "estimated"), (20, "counted"))


def test_each_figure_says_how_and_since_when_it_is_known() -> None:
    """In the words that `framehold status`, `framehold leases` and the dashboard show."""
    nothing = worded(account([node("a", frames=5)], logged(), NOW), NOW)
    assert (nothing.held.text, nothing.orphaned.text) == ("5 (looked up 1s ago)", "not looked up yet")
    scanned = worded(account([node("a", scan=SCAN.model_copy(update={"orphaned": 0}))], logged(), NOW), NOW)
    assert scanned.orphaned.text == "none of 70 records, looked up 15s ago"
    died = worded(account([node("a", scan=SCAN)], logged(end("b", 990.0, orphaned=3)), NOW), NOW)
    waits = "their nodes are gone; each goes on elsewhere when its client comes back"
    assert died.orphaned.text == f"about 23 (looked up 15s ago): {waits}"


def test_lost_calls_count_for_an_hour_and_not_if_their_process_is_back() -> None:
    of = ((10, 7, "b-b"), (4000, 5, "b-c"), (5, 3, "b-a"))
    losses = tuple(LostCalls(NOW - ago, calls, boot, "died") for ago, calls, boot in of)
    assert account([node("a")], logged(losses=losses), NOW).lost_last_hour == 7
    assert account([node("a", lost_here=2)], logged(losses=losses), NOW).lost_last_hour == 9
