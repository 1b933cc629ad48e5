"""The fleet at a glance: sums over the figures of the nodes, and rates of the last minute.

The law: a rate is the difference of two counts that this router has read. A node counts from its own start, so its
first count adds nothing. Without two reads there is no rate.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import NamedTuple

from framehold_fleet.models.events import EventView
from framehold_fleet.models.fields import printable, summed
from framehold_fleet.models.nodes import FailingView, NodeView, OverviewView, PauseView

from ..collect.fleet_log import FleetPast
from ..collect.open_calls import account
from ..telemetry.counters import Meter
from ..verdict import rules
from ..verdict.seen import FleetFacts
from ..verdict.wording import worded
from .failovers import Failovers
from .fleet import HOUR, departed
from .sources import VERSION, ApiRequest, Sources

MINUTE = 60.0
LONGEST = 2 * MINUTE
"""Looks that are further apart say nothing of the last minute."""
EVENTS = 20
TOGETHER = 10.0
"""Seconds between two events of single calls that are shown as one."""
MAX_FAILING = 10


class _RoundCounts(NamedTuple):
    """The counts at one instant: rounds that were answered since this router read the first figures, and retries."""

    at: float
    rounds: int
    hits: int
    misses: int


class Rates:
    """Rates of the last minute, from surveys of the nodes and from the meter of this router. `clock` gives seconds that
    never go back."""

    def __init__(self, clock: Callable[[], float], retries: Meter | None) -> None:
        self._clock, self._retries = clock, retries
        self._seen: deque[_RoundCounts] = deque()
        self._last: dict[tuple[str, str], int] = {}

    def note(self, nodes: Iterable[NodeView]) -> None:
        """Take in the result of a survey."""
        rounds = self._seen[-1].rounds if self._seen else 0
        for node in nodes:
            if node.rounds is not None:
                life = node.node_id, node.boot
                # Removed and added again, so that the life that has been silent for the longest time is first.
                last = self._last.pop(life, node.rounds)
                # A survey may end behind a later one: its figures are lower.
                self._last[life] = newest = max(last, node.rounds)
                rounds += newest - last
        while len(self._last) > 1000:
            del self._last[next(iter(self._last))]
        now = self._clock()
        hits, misses = (self._retries.hits, self._retries.misses) if self._retries is not None else (0, 0)
        self._seen.append(_RoundCounts(now, rounds, hits, misses))
        while len(self._seen) > 2 and self._seen[1].at <= now - MINUTE:
            self._seen.popleft()
        while self._seen[0].at < now - LONGEST:
            self._seen.popleft()

    def rounds_per_second(self) -> float | None:
        """Rounds per second that the nodes answered; None without two surveys near the last
        minute."""
        if len(self._seen) < 2:
            return None
        first, last = self._seen[0], self._seen[-1]
        return (last.rounds - first.rounds) / (last.at - first.at) if last.at > first.at else None

    def affinity(self) -> float | None:
        """The part of retries, from 0 to 1, that were served by the node that the router chose; None without any."""
        if len(self._seen) < 2:
            return None
        first, last = self._seen[0], self._seen[-1]
        hits, misses = last.hits - first.hits, last.misses - first.misses
        return hits / (hits + misses) if hits + misses > 0 else None


class Overview:
    """Builds the overview of one router."""

    def __init__(self, rates: Rates, failovers: Failovers) -> None:
        self._rates, self._failovers = rates, failovers

    async def answer(self, sources: Sources, asked: ApiRequest) -> OverviewView:
        """`GET overview`."""
        nodes, logged, store = await asyncio.gather(
            sources.survey.nodes(), sources.log.logged(), sources.store_health.look()
        )
        seen = FleetFacts(
            at=sources.clock(),
            nodes=nodes,
            departed=departed(sources, logged),
            events=logged.events,
            stuck=_sum(node.stuck for node in nodes),
            store=store,
            paused=_paused(nodes),
            failing=_failing(nodes),
            ends=tuple(logged.ends.values()),
            own_descriptors=sources.descriptors.now(),
            loss=sources.loss(),
            tools_steady=sources.identities.are_steady,
            routers=sources.routers(),
            refused_hosts=sources.refused_hosts(),
            own_offset=sources.clock() - time.time(),
        )
        return self._view(seen, logged)

    def _view(self, seen: FleetFacts, logged: FleetPast) -> OverviewView:
        nodes, store, problems = seen.nodes, seen.store, rules.of(seen)
        return OverviewView(
            at=seen.at,
            version=VERSION,
            nodes=dict(Counter(node.shown for node in nodes)),
            parked=_sum(node.parked for node in nodes),
            in_flight=_sum(node.in_flight for node in nodes),
            orphaned=_sum(node.orphaned for node in nodes),
            stuck=seen.stuck,
            open=worded(account(nodes, logged, seen.at), seen.at),
            ended=_sum(node.ended for node in nodes),
            failed=_sum(node.failed for node in nodes),
            failing=list(seen.failing),
            rounds_per_second=self._rates.rounds_per_second(),
            resume_p50=_middle(node.resume_p50 for node in nodes),
            resume_p99=max((node.resume_p99 for node in nodes if node.resume_p99 is not None), default=None),
            affinity=self._rates.affinity(),
            routers=list(seen.routers),
            failovers_last_hour=self._failovers.since(logged, seen.at - HOUR),
            store_seconds=_middle(node.store_seconds for node in nodes),
            store=seen.store_state,
            store_used=store.memory.used if store.memory is not None else None,
            store_limit=store.memory.limit if store.memory is not None else None,
            events=_grouped(logged.events)[:EVENTS],
            paused=list(seen.paused),
            problems=problems,
        )


def _paused(nodes: Iterable[NodeView]) -> list[PauseView]:
    """The paused tools: what any node knows of, in order of their names."""
    found = {pause.tool: pause for node in nodes for pause in node.paused}
    return [found[tool] for tool in sorted(found)]


def _grouped(events: Iterable[EventView]) -> list[EventView]:
    """The events, the newest first: those of one kind about single calls are one while less than TOGETHER seconds lie
    between two of them, as when a node dies."""
    groups: list[list[EventView]] = []
    open_groups: dict[str, list[EventView]] = {}
    for event in events:
        about_a_call = bool(event.call) or event.count > 1
        group = open_groups.get(event.kind) if about_a_call else None
        if group is not None and group[-1].at - event.at < TOGETHER:
            group.append(event)
            continue
        groups.append(group := [event])
        if about_a_call:
            open_groups[event.kind] = group
    return [group[0] if len(group) == 1 else _one(group) for group in groups]


def _one(group: Sequence[EventView]) -> EventView:
    """One event that stands for several of one kind."""
    count, nodes = summed(event.count for event in group), sorted({event.node_id for event in group})
    last = next((event for event in group if event.call), group[0])
    text = f"{count:,} such events, at {', '.join(nodes)}; of the last call: {last.text}"
    alone = {"node_id": nodes[0] if len(nodes) == 1 else "", "call": "", "tool": "", "epoch": None, "round": None}
    return last.model_copy(update={**alone, "at": group[0].at, "text": printable(text), "count": count})


def _sum(counts: Iterable[int | None]) -> int:
    return summed(count or 0 for count in counts)


def _failing(nodes: Iterable[NodeView]) -> list[FailingView]:
    """The tools that failed lately on any node, the most failures first."""
    ended, failed = Counter[str](), Counter[str]()
    for item in (item for node in nodes for item in node.failing):
        ended[item.tool] = summed((ended[item.tool], item.ended))
        failed[item.tool] = summed((failed[item.tool], item.failed))
    worst = failed.most_common(MAX_FAILING)
    return [FailingView(tool=tool, ended=ended[tool], failed=count) for tool, count in worst]


def _middle(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return median(found) if found else None
