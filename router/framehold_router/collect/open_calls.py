"""The account of open calls: each open call is in one figure, and each figure says when and how it became known.

    1. the nodes say how many calls they hold, how many are asleep there, and how many they have handed off
    2. one node scans the store: it counts the calls of lives that were over when its scan began
    3. a life that ended later counts by its last lease, until the next scan has ended: what may go on elsewhere is
       handed off if the life said goodbye, else orphaned
    4. what was taken over since is taken off

The law: it is arithmetic on what was looked up, and asks nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from framehold_fleet.models.events import EndView
from framehold_fleet.models.fields import summed
from framehold_fleet.models.nodes import NodeView
from framehold_fleet.models.open_calls import FigureView, Known, OpenView, ScanView

from .fleet_log import FleetPast
from .survey import UNREACHABLE

HOUR = 3600.0
_ORPHANED, _HANDED_OFF = ("died", "restarted"), ("released",)
"""The reasons of the takeovers of each."""


def account(nodes: Sequence[NodeView], logged: FleetPast, now: float) -> OpenView:
    """The account of a fleet. `nodes` are those that have leases, `now` is in seconds since 1970."""
    scan = max((node.scan for node in nodes if node.scan is not None), key=lambda scan: scan.at, default=None)
    figures = [_held(nodes, now), _asleep(nodes, now), _handed_off(nodes, logged, scan), _orphaned(logged, scan)]
    (held, asleep, handed_off, orphaned), here = figures, _boots(logged)
    lost = (loss.calls for loss in logged.losses if loss.at > now - HOUR and loss.boot not in here)
    return OpenView(
        held=held,
        asleep=asleep,
        handed_off=handed_off,
        orphaned=orphaned,
        total=summed(figure.count for figure in figures),
        looked=None if scan is None else scan.looked,
        lost_last_hour=summed((*lost, *(node.lost_here or 0 for node in nodes))),
    )


def _boots(logged: FleetPast) -> set[str]:
    """The lives that have a lease: nothing of them is lost, whoever thought so."""
    return {boot for _, boot in logged.here}


def _held(nodes: Sequence[NodeView], now: float) -> FigureView:
    held = (node.frames if node.frames is not None else (node.parked or 0) + (node.in_flight or 0) for node in nodes)
    return FigureView(count=summed(held), known=_known(nodes), at=_oldest(nodes, now))


def _asleep(nodes: Sequence[NodeView], now: float) -> FigureView:
    return FigureView(count=summed(node.asleep or 0 for node in nodes), known=_known(nodes), at=_oldest(nodes, now))


def _known(nodes: Iterable[NodeView]) -> Known:
    return "estimated" if any(node.state == UNREACHABLE for node in nodes) else "counted"


def _oldest(nodes: Iterable[NodeView], now: float) -> float:
    """When the oldest of the nodes' figures was read."""
    return min((node.at for node in nodes if node.at is not None), default=now)


def _handed_off(nodes: Sequence[NodeView], logged: FleetPast, scan: ScanView | None) -> FigureView:
    taken = _taken(logged, _HANDED_OFF)
    here = sum(max(0, (node.released or 0) - taken[node.boot]) for node in nodes)
    ends = _unscanned(logged, scan)
    # For whatever reason a call of a life that said goodbye is taken over: the life had handed it off.
    any_taken = taken + _taken(logged, _ORPHANED)
    estimate = sum(max(0, (end.released or 0) - taken[end.boot]) for end in ends if not end.left)
    estimate += sum(max(0, (end.released or 0) + (end.orphaned or 0) - any_taken[end.boot]) for end in ends if end.left)
    alive = {node.boot for node in nodes} | {end.boot for end in ends}
    scanned, known, at = _scanned(logged, _HANDED_OFF, scan, scan.handed_off if scan else 0, alive)
    return FigureView(count=summed((scanned, estimate, here)), known="estimated" if estimate else known, at=at)


def _orphaned(logged: FleetPast, scan: ScanView | None) -> FigureView:
    taken, ends = _taken(logged, _ORPHANED), _unscanned(logged, scan)
    estimate = sum(max(0, (end.orphaned or 0) - taken[end.boot]) for end in ends if not end.left)
    alive = {end.boot for end in ends} | _boots(logged)
    scanned, known, at = _scanned(logged, _ORPHANED, scan, scan.orphaned if scan else 0, alive)
    return FigureView(count=summed((scanned, estimate)), known="estimated" if estimate else known, at=at)


def _unscanned(logged: FleetPast, scan: ScanView | None) -> list[EndView]:
    """The lives that are over, and were not yet when the last scan began."""
    began = 0.0 if scan is None else scan.began
    return [
        end
        for life, end in logged.ends.items()
        if life not in logged.here and (end.detected if end.gone is None else end.gone) > began
    ]


def _scanned(
    logged: FleetPast, reasons: Sequence[str], scan: ScanView | None, count: int, alive: set[str]
) -> tuple[int, Known, float | None]:
    """What is left of the count of a scan, how it is known, and when it was counted. The scan did not count the lives
    in `alive`."""
    if scan is None:
        return 0, "counted", None
    moments = [
        item.claimed
        for item in logged.takeovers
        if item.reason in reasons and item.from_boot not in alive and item.claimed is not None
    ]
    # One that was taken over while the scan ran may have been counted before, or not.
    since = sum(claimed > scan.at for claimed in moments)
    during = any(scan.began <= claimed <= scan.at for claimed in moments)
    return max(0, count - since), "up_to" if count and during else "counted", scan.at


def _taken(logged: FleetPast, reasons: Sequence[str]) -> Counter[str]:
    """How many calls of each life were taken over for one of these reasons."""
    return Counter(item.from_boot for item in logged.takeovers if item.reason in reasons and item.claimed is not None)
