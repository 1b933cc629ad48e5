"""Tells a node's death as one story: last heartbeat -> detected -> claimed -> replayed -> resumed.

The law: the reason, and the times after `detected`, are of one call, the first that came furthest, so that they follow
one another; and a duration that would be negative, since clocks of several machines are compared, is left out.
As long as no node tells anything new, what was made of it stands.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable

from ..departures import Departure
from .about_events import FailoversView, FailoverView, TakeoverView
from .chronicles import Gathered
from .sources import Asked, Sources

SHOWN = 100
"""How many calls of one failover are told."""
_COUNTED = ("recovered", "lost", "stuck", "under way")


class Failovers:
    """All that are known. One for each router."""

    def __init__(self) -> None:
        self._of = -1, -1
        self._view = FailoversView(failovers=[], fenced=0)
        self._began: list[float] = []

    async def answer(self, sources: Sources, asked: Asked) -> FailoversView:
        """`GET failovers`."""
        return self.view(sources, await sources.chronicles.gathered())

    def view(self, sources: Sources, gathered: Gathered) -> FailoversView:
        """What the nodes have told, with what this router saw."""
        of = gathered.changes, sources.departures.changes
        if of != self._of:
            found = sorted(((_began(item), item) for item in _all(sources, gathered)), key=_first, reverse=True)
            fenced = sum(said.fenced for said in gathered.here)
            self._view = FailoversView(failovers=[item for _, item in found], fenced=fenced)
            self._of, self._began = of, [at for at, _ in found]
        return self._view

    def since(self, sources: Sources, gathered: Gathered, at: float) -> int:
        """How many began after `at`, in seconds since 1970."""
        self.view(sources, gathered)
        return sum(began > at for began in self._began)


def _all(sources: Sources, gathered: Gathered) -> Iterable[FailoverView]:
    groups: dict[tuple[str, str], list[TakeoverView]] = defaultdict(list)
    for said in (*gathered.here, *gathered.gone):
        for takeover in said.takeovers:
            # Only its frame went: its node lives, and is the one that carries it on.
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
    """When it was first noticed, in seconds since 1970."""
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
        calls=calls[:SHOWN],
    )


def _progress(call: TakeoverView) -> tuple[float, float, float, float]:
    """The first that was resumed; where none was, the first that was replayed, then claimed, then asked for."""
    return _or_never(call.resumed), _or_never(call.replayed), _or_never(call.claimed), call.asked


def _or_never(at: float | None) -> float:
    return math.inf if at is None else at


def _durations(first: TakeoverView | None, gone: Departure | None) -> dict[str, float]:
    heartbeat, detected = (gone.last_heartbeat, gone.detected) if gone else (None, None)
    spans: dict[str, tuple[float | None, float | None]] = {"detect": (heartbeat, detected)}
    if first is not None:
        # Nodes look for themselves: where this router saw it later, or not, the claim is counted from its retry.
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
