"""Builds the timeline of each failover: last heartbeat -> detected -> claimed -> replayed -> resumed; and of each
hand-off, which was planned and is no failover.

The law: the reason and the times after `detected` are those of one call, so that they are in order: of the calls that
came furthest, the first that did. A negative duration is left out; it may occur because the clocks of several machines
are compared. While nothing new has happened, the last view is used again.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from framehold_fleet.models.events import EndView, FailoversView, FailoverView, TakeoverView
from framehold_fleet.models.fields import summed

from ..collect.fleet_log import FleetPast
from .sources import ApiRequest, Sources

MAX_CALLS_SHOWN = 100
"""Calls of one failover that are listed at most."""
_COUNTED = ("recovered", "lost", "stuck", "under way")


class Failovers:
    """The failovers and hand-offs that the event log knows of."""

    def __init__(self) -> None:
        self._of = -1
        self._found: list[FailoverView] = []
        self._began: list[float] = []

    async def answer(self, sources: Sources, asked: ApiRequest) -> FailoversView:
        """`GET failovers`."""
        logged, nodes = await asyncio.gather(sources.log.logged(), sources.survey.nodes())
        return FailoversView(failovers=self.view(logged), fenced=summed(node.fenced or 0 for node in nodes))

    def view(self, logged: FleetPast) -> list[FailoverView]:
        """All failovers and hand-offs, the newest first."""
        if logged.changes != self._of:
            found = sorted(((_began(item), item) for item in _all(logged)), key=_first, reverse=True)
            self._of, self._found = logged.changes, [item for _, item in found]
            self._began = [at for at, item in found if not item.planned]
        return self._found

    def since(self, logged: FleetPast, at: float) -> int:
        """The number of failovers that began after `at`, in seconds since 1970. Hand-offs are not counted."""
        self.view(logged)
        return sum(began > at for began in self._began)


def _all(logged: FleetPast) -> Iterable[FailoverView]:
    groups: dict[tuple[str, str], list[TakeoverView]] = defaultdict(list)
    for takeover in _each_stuck_once(logged.takeovers):
        # No failover: only the frame was dropped, and its own node continues the call.
        if takeover.reason != "evicted":
            groups[takeover.from_node, takeover.from_boot].append(takeover)
    for key, end in logged.ends.items():
        # A process that came back, and of which nobody took a call, has failed over to nobody.
        if not end.left and key not in logged.here:
            groups.setdefault(key, [])
    for key, calls in groups.items():
        yield _failover(*key, calls, logged.ends.get(key))


def _each_stuck_once(takeovers: Iterable[TakeoverView]) -> Iterator[TakeoverView]:
    """The takeovers; of a call that several nodes found stuck only the first."""
    stuck: set[str] = set()
    for takeover in takeovers:
        if takeover.outcome != "stuck" or takeover.call not in stuck:
            yield takeover
        if takeover.outcome == "stuck":
            stuck.add(takeover.call)


def _first(item: tuple[float, FailoverView]) -> float:
    return item[0]


def _began(failover: FailoverView) -> float:
    """When a failover was first noticed, in seconds since 1970."""
    return min(
        (
            at
            for at in (failover.detected, failover.claimed, *(call.asked for call in failover.calls))
            if at is not None
        ),
        default=0.0,
    )


def _failover(node: str, boot: str, calls: list[TakeoverView], gone: EndView | None) -> FailoverView:
    calls = sorted(calls, key=lambda call: call.asked, reverse=True)
    released = [call.reason == "released" for call in calls]
    # Calls that a drained node kept and lost were taken from a node that was gone by then.
    planned = any(released) if gone is None or gone.left else bool(released) and all(released)
    counts = Counter(call.outcome for call in calls)
    first = min(calls, key=_progress, default=None)
    return FailoverView(
        node_id=node,
        boot=boot,
        reason=first.reason if first else "died",
        planned=planned,
        last_heartbeat=gone.last_heartbeat if gone else None,
        detected=gone.detected if gone else None,
        claimed=first.claimed if first else None,
        replayed=first.replayed if first else None,
        resumed=first.resumed if first else None,
        durations=_durations(first, None if planned else gone),
        recovered=counts["recovered"],
        lost=counts["lost"],
        stuck=counts["stuck"],
        under_way=counts["under way"],
        failed=sum(count for outcome, count in counts.items() if outcome not in _COUNTED),
        calls=calls[:MAX_CALLS_SHOWN],
    )


def _progress(call: TakeoverView) -> tuple[float, float, float, float]:
    """Sort key of a call, the least first: the time when it was resumed; then those when it was replayed, claimed and
    asked for."""
    return _or_never(call.resumed), _or_never(call.replayed), _or_never(call.claimed), call.asked


def _or_never(at: float | None) -> float:
    return math.inf if at is None else at


def _durations(first: TakeoverView | None, gone: EndView | None) -> dict[str, float]:
    """The durations of the steps. `gone` is None for a hand-off: nobody waits for a lease then, and the total is
    counted from the retry."""
    heartbeat, detected = (gone.last_heartbeat, gone.detected) if gone else (None, None)
    spans: dict[str, tuple[float | None, float | None]] = {"detect": (heartbeat, detected)}
    if first is not None:
        # A node may claim a call before this router detects the death: then `claim` is counted from the retry.
        saw_first = detected is not None and (first.claimed is None or detected <= first.claimed)
        spans |= {
            "claim": (detected if saw_first else first.asked, first.claimed),
            "replay": (first.claimed, first.replayed),
            "resume": (first.replayed, first.resumed),
            "total": (first.asked if first.reason == "released" else heartbeat, first.resumed),
        }
    return {
        name: until - since
        for name, (since, until) in spans.items()
        if since is not None and until is not None and until >= since
    }
