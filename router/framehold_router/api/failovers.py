"""Builds the timeline of each failover: last heartbeat -> detected -> claimed -> replayed -> resumed.

The law: the reason and the times after `detected` are those of one call, so that they are in order: of the calls that
came furthest, the first that did. A negative duration is left out; it may occur because the clocks of several machines
are compared. While nothing new has happened, the last view is used again.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable

from ..fleet.departures import Departure
from ..models.events import FailoversView, FailoverView, TakeoverView
from .event_logs import Gathered
from .sources import Asked, Sources

MAX_CALLS_SHOWN = 100
"""Calls of one failover that are listed at most."""
_COUNTED = ("recovered", "lost", "stuck", "under way")


class Failovers:
    """The failovers that a router knows of."""

    def __init__(self) -> None:
        self._of = -1, -1
        self._view = FailoversView(failovers=[], fenced=0)
        self._began: list[float] = []

    async def answer(self, sources: Sources, asked: Asked) -> FailoversView:
        """`GET failovers`."""
        return self.view(sources, await sources.event_logs.gathered())

    def view(self, sources: Sources, gathered: Gathered) -> FailoversView:
        """All failovers, the newest first: the takeovers in the logs of the nodes, with the departures that this router
        saw."""
        of = gathered.changes, sources.departures.changes
        if of != self._of:
            found = sorted(((_began(item), item) for item in _all(sources, gathered)), key=_first, reverse=True)
            fenced = sum(log.fenced for log in gathered.here)
            self._view = FailoversView(failovers=[item for _, item in found], fenced=fenced)
            self._of, self._began = of, [at for at, _ in found]
        return self._view

    def since(self, sources: Sources, gathered: Gathered, at: float) -> int:
        """The number of failovers that began after `at`, in seconds since 1970."""
        self.view(sources, gathered)
        return sum(began > at for began in self._began)


def _all(sources: Sources, gathered: Gathered) -> Iterable[FailoverView]:
    groups: dict[tuple[str, str], list[TakeoverView]] = defaultdict(list)
    for log in (*gathered.here, *gathered.gone):
        for takeover in log.takeovers:
            # No failover: only the frame was dropped, and its own node continues the call.
            if takeover.reason != "evicted":
                groups[takeover.from_node, takeover.from_boot].append(takeover)
    for gone in sources.departures.all():
        if not gone.left:
            groups.setdefault((gone.node, gone.boot), [])
    for (node, boot), calls in groups.items():
        yield _failover(node, boot, calls, sources.departures.of(node, boot))


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


def _failover(node: str, boot: str, calls: list[TakeoverView], gone: Departure | None) -> FailoverView:
    calls = sorted(calls, key=lambda call: call.asked, reverse=True)
    counts = Counter(call.outcome for call in calls)
    first = min(calls, key=_progress, default=None)
    return FailoverView(
        node_id=node,
        boot=boot,
        reason=first.reason if first else "died",
        last_heartbeat=gone.last_heartbeat if gone else None,
        detected=gone.detected if gone else None,
        claimed=first.claimed if first else None,
        replayed=first.replayed if first else None,
        resumed=first.resumed if first else None,
        durations=_durations(first, gone),
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


def _durations(first: TakeoverView | None, gone: Departure | None) -> dict[str, float]:
    heartbeat, detected = (gone.last_heartbeat, gone.detected) if gone else (None, None)
    spans: dict[str, tuple[float | None, float | None]] = {"detect": (heartbeat, detected)}
    if first is not None:
        # A node may claim a call before this router detects the death: then `claim` is counted from the retry.
        saw_first = detected is not None and (first.claimed is None or detected <= first.claimed)
        spans |= {
            "claim": (detected if saw_first else first.asked, first.claimed),
            "replay": (first.claimed, first.replayed),
            "resume": (first.replayed, first.resumed),
            "total": (heartbeat, first.resumed),
        }
    return {
        name: until - since
        for name, (since, until) in spans.items()
        if since is not None and until is not None and until >= since
    }
