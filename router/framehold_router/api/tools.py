"""The tools of the fleet: what is parked of each now, and what was counted of it lately."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from framehold_core.ending import How
from framehold_fleet.models.fields import summed
from framehold_fleet.models.history import Sample
from framehold_fleet.models.nodes import PauseView
from framehold_fleet.models.tools import (
    NO_FIGURES,
    ExpiringView,
    HolderView,
    ToolFigures,
    ToolsQuery,
    ToolStatus,
    ToolsView,
    ToolView,
    WaitingView,
)
from framehold_fleet.telemetry.bounds import EXPIRY, PARK, ROUND
from framehold_fleet.telemetry.histogram import quantile

from ..collect.history import COARSE, STEP
from ..collect.samples import added
from . import history
from .sources import ApiRequest, Sources

MAX_HOLDERS = 10
_MINUTE, _TEN_MINUTES, _HOUR, _HALF_HOUR = 60, 600, 3600, 1800


async def answer(sources: Sources, asked: ApiRequest) -> ToolsView:
    """`GET tools`."""
    query = asked.query
    assert isinstance(query, ToolsQuery)
    seen, samples, ended = await asyncio.gather(sources.tools.seen(), history.last_hour(sources), sources.ended.known())
    took: dict[str, list[float]] = {}
    for call in sorted(ended.calls.values(), key=lambda call: call.seconds):
        if call.outcome == How.COMPLETED:
            took.setdefault(call.tool, []).append(call.seconds)
    by_name: dict[str, list[ToolStatus]] = {}
    for tool in (tool for node in seen.nodes for tool in node.tools):
        by_name.setdefault(tool.tool, []).append(tool)
    paused = {pause.tool: pause for node in seen.nodes for pause in node.paused}
    return ToolsView(
        tools=[
            _view(name, by_name[name], [_figures(sample, name) for sample in samples], paused.get(name)).model_copy(
                update={"call_p50": _at(took.get(name), 0.5), "call_p99": _at(took.get(name), 0.99)}
            )
            for name in sorted(by_name)
            if query.tool in ("", name)
        ],
        missing=list(seen.missing),
    )


async def waiting(sources: Sources, asked: ApiRequest) -> WaitingView:
    """`GET waiting`."""
    seen = await sources.tools.seen()
    expiring: dict[str, list[int]] = {}
    for tool in (tool for node in seen.nodes for tool in node.tools if tool.parked):
        counts = expiring.setdefault(tool.tool, [0] * (len(EXPIRY) + 1))
        for index, count in enumerate(tool.expiring[: len(counts)]):
            counts[index] = summed((counts[index], count))
    holders = Counter[str]()
    for holder in (holder for node in seen.nodes for holder in node.holders):
        holders[holder.who] = summed((holders[holder.who], holder.calls))
    return WaitingView(
        bounds=list(EXPIRY),
        tools=[ExpiringView(tool=tool, expiring=expiring[tool]) for tool in sorted(expiring)],
        holders=[HolderView(who=who, calls=calls) for who, calls in holders.most_common(MAX_HOLDERS)],
        over_limit=summed(node.over_limit for node in seen.nodes),
        missing=list(seen.missing),
    )


def _figures(sample: Sample | None, tool: str) -> ToolFigures | None:
    return None if sample is None else sample.tools.get(tool, NO_FIGURES)


def _view(
    name: str, nodes: Sequence[ToolStatus], figures: Sequence[ToolFigures | None], paused: PauseView | None
) -> ToolView:
    minute, lately, hour = (_since(figures, seconds) for seconds in (_MINUTE, _TEN_MINUTES, _HOUR))
    known = sum(item is not None for item in figures[-_MINUTE // STEP :])
    ended = summed((lately.ended, lately.failed))
    return ToolView(
        tool=name,
        parked=summed(item.parked for item in nodes),
        oldest=max((item.oldest for item in nodes if item.oldest is not None), default=None),
        journal=summed(item.journal for item in nodes),
        rounds_per_second=_rounds(minute) / (known * STEP) if known else None,
        ended=ended,
        failed=lately.failed,
        failed_share=lately.failed / ended if ended else None,
        refused=lately.refused,
        replays=hour.replays,
        diverged=hour.diverged,
        p50=quantile(ROUND, lately.took, 0.5),
        p99=quantile(ROUND, lately.took, 0.99),
        think_p50=quantile(PARK, hour.thought, 0.5),
        rounds=_by_minute(figures),
        paused=paused,
    )


def _since(figures: Sequence[ToolFigures | None], seconds: int) -> ToolFigures:
    """What was counted in the last `seconds`."""
    found = [item for item in figures[-seconds // STEP :] if item is not None and item is not NO_FIGURES]
    return added(found, max) if found else NO_FIGURES


def _rounds(figures: ToolFigures) -> int:
    return figures.asked + figures.ended + figures.failed


def _by_minute(figures: Sequence[ToolFigures | None]) -> list[float | None]:
    """Rounds per second in each minute of the last half hour, the latest minute last."""
    slots, size = figures[-_HALF_HOUR // STEP :], COARSE // STEP
    minutes = [[item for item in slots[at : at + size] if item is not None] for at in range(0, len(slots), size)]
    return [sum(map(_rounds, minute)) / (len(minute) * STEP) if minute else None for minute in minutes]


def _at(ordered: Sequence[float] | None, part: float) -> float | None:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None
