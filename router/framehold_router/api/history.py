"""The history of the fleet as series over time, with marks of what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice

from framehold_fleet.models.events import EventKind
from framehold_fleet.models.history import SERIES, Figures, HistoryQuery, HistoryView, MarkView, Sample
from framehold_fleet.models.tools import NO_FIGURES
from framehold_fleet.telemetry.bounds import PARK, ROUND
from framehold_fleet.telemetry.histogram import quantile

from ..collect.fleet_log import FleetPast
from ..collect.history import COARSE, KEPT, STEP
from ..collect.samples import MAX_NODES
from .sources import ApiRequest, RequestDenied, Sources

_RANGES = {"15m": (900, STEP), "1h": (3600, STEP), "6h": (21_600, COARSE), "24h": (86_400, COARSE)}
"""For each range its length and its step, in seconds."""
_MARKED = {
    *(EventKind.NODE_JOINED, EventKind.NODE_DRAINING, EventKind.NODE_LEFT, EventKind.NODE_LOST, EventKind.DRAIN),
    EventKind.UNDRAINED,
    *(EventKind.STORE_SILENT, EventKind.STORE_BACK, EventKind.STORE_EMPTIED, EventKind.PAUSED, EventKind.RESUMED),
}
MAX_MARKS = 200
_PER_SECOND = ("ended", "failed", "refused")
Series = dict[str, list[float | None]]
"""By name, one value for each slot."""


async def answer(sources: Sources, asked: ApiRequest) -> HistoryView:
    """`GET history`.

    Raises:
        Refused: this router keeps no history.
    """
    query, history = asked.query, sources.history
    assert isinstance(query, HistoryQuery)
    if history is None:
        raise RequestDenied(404, "this router keeps no history: FRAMEHOLD_HISTORY is false; nothing was read")
    length, step = _RANGES[query.range]
    end = int(sources.clock() // step)
    slots = range(end - length // step, end)
    samples, logged = await asyncio.gather(history.samples(step, slots), sources.log.logged())
    return HistoryView(
        step=step,
        start=slots.start * step,
        series=_series(samples, query, step),
        nodes=await _of_each(samples) if query.each else {},
        marks=_marks(logged, samples, slots.start * step, step, query.node),
    )


async def last_hour(sources: Sources) -> list[Sample | None]:
    """The samples of the last hour, the latest one last; empty if this router keeps no history."""
    if sources.history is None:
        return []
    end = int(sources.clock() // STEP)
    return await sources.history.samples(STEP, range(end - KEPT[STEP] // STEP, end))


async def _of_each(samples: Sequence[Sample | None]) -> dict[str, Series]:
    """The series of each of the nodes that were there last, in order of their names. Other work runs in between."""
    there = (name for sample in reversed(samples) if sample is not None for name in sample.nodes)
    found = {}
    for name in sorted(islice(dict.fromkeys(there), MAX_NODES)):
        found[name] = _columns([_of_node(sample, name) for sample in samples])
        await asyncio.sleep(0)
    return found


def _series(samples: Sequence[Sample | None], query: HistoryQuery, step: int) -> Series:
    if query.tool:
        return of_tool(samples, query.tool, step)
    if query.node:
        return _columns([_of_node(sample, query.node) for sample in samples])
    return _columns([None if sample is None else sample.fleet for sample in samples])


def of_tool(samples: Sequence[Sample | None], tool: str, step: int) -> Series:
    """The series of one tool. Where nobody called it nothing was waited for, so there are no quantiles."""
    rows = [None if sample is None else sample.tools.get(tool, NO_FIGURES) for sample in samples]
    return {
        "rounds": [None if row is None else (row.asked + row.ended + row.failed) / step for row in rows],
        **{name: [None if row is None else getattr(row, name) / step for row in rows] for name in _PER_SECOND},
        "p50": [None if row is None else quantile(ROUND, row.took, 0.5) for row in rows],
        "p99": [None if row is None else quantile(ROUND, row.took, 0.99) for row in rows],
        "think": [None if row is None else quantile(PARK, row.thought, 0.5) for row in rows],
        "parked": [None if row is None else row.parked or 0 for row in rows],
    }


def _of_node(sample: Sample | None, node: str) -> Figures | None:
    return None if sample is None else sample.nodes.get(node)


def _columns(rows: Sequence[Figures | None]) -> Series:
    """One series for each figure that has a value at all."""
    columns = {name: [None if row is None else getattr(row, name) for row in rows] for name in SERIES}
    return {name: values for name, values in columns.items() if any(value is not None for value in values)}


def _marks(logged: FleetPast, samples: Sequence[Sample | None], start: float, step: int, node: str) -> list[MarkView]:
    """What happened since `start`, in order of time. If `node` is given, only what concerns it."""
    events = (event for event in logged.events if event.kind in _MARKED and event.at >= start)
    found = [
        MarkView(at=event.at, kind=event.kind, text=event.text, event=event)
        for event in events
        if not node or event.node_id in ("", node)
    ]
    return sorted([*found, *_deploys(samples, start, step)], key=lambda mark: mark.at)[-MAX_MARKS:]


def _deploys(samples: Iterable[Sample | None], start: float, step: int) -> list[MarkView]:
    """A mark where the releases that the nodes serve have changed."""
    found, before = list[MarkView](), ""
    for index, sample in enumerate(samples):
        served = "" if sample is None else sample.release
        if served and before and served != before:
            text = f"The nodes serve {served} now, before it was {before}."
            found.append(MarkView(at=start + (index + 1) * step, kind="deployed", text=text))
        before = served or before
    return found
