"""Samples of the history: the figures of the fleet, of its nodes and of its tools in one slot of time.

The law: bounded. A sample has MAX_NODES nodes and MAX_TOOLS tools at most; the figures of the fleet are those of all
its nodes. Rates and counts are of one life of a node:
a process that began anew counts from its own start, so its first figures add nothing.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, zip_longest
from statistics import fmean, median
from typing import Any

from pydantic import ValidationError

from framehold_fleet.models.fields import summed
from framehold_fleet.models.history import SERIES, Figures, Sample
from framehold_fleet.models.nodes import NodeView
from framehold_fleet.models.tools import ToolCounts, ToolFigures, ToolsStatus

MAX_NODES, MAX_TOOLS = 100, 202
MAX_BYTES = 256 * 1024
"""Bytes of a sample that is read, after it is decompressed."""
_RATES = ("rounds", "ended", "failed")
_COUNTS = tuple(ToolCounts.model_fields)
_NOTHING = ToolCounts()
_HIGHEST, _MIDDLE = ("p99", "lag", "busy"), ("p50", "store")


class Sampler:
    """Makes the samples of one router, one after the other."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], tuple[float, dict[str, int]]] = {}
        self._tools: dict[tuple[str, str, str], ToolCounts] = {}
        self._answers: dict[tuple[str, str], NodeView] = {}
        """The last answer of each life that has a lease: while a node is silent, it serves what it served."""

    def sample(self, nodes: Iterable[NodeView], tools: Iterable[ToolsStatus], now: float) -> Sample:
        """The sample of the time since the last one; `now` is in seconds."""
        there = list(nodes)
        before, self._counts = self._counts, {}
        figures = {node.node_id: self._figures(node, before.get((node.node_id, node.boot)), now) for node in there}
        return Sample(
            nodes=dict(islice(figures.items(), MAX_NODES)),
            fleet=of_fleet(figures.values()),
            tools=self._tools_since(tools),
            release=self._release(there),
        )

    def _release(self, nodes: Iterable[NodeView]) -> str:
        """What the nodes serve. The lease of one that never answered does not tell its code."""
        before, self._answers = self._answers, {}
        for node in nodes:
            life, answers = (node.node_id, node.boot), node.version is not None and node.unanswered is None
            if (answer := node if answers else before.get(life)) is not None:
                self._answers[life] = answer
        return release(self._answers.values())

    def _figures(self, node: NodeView, before: tuple[float, dict[str, int]] | None, now: float) -> Figures:
        read = {"rounds": node.rounds, "ended": node.calls_ended, "failed": node.calls_failed}
        counts = {name: count for name, count in read.items() if count is not None}
        self._counts[node.node_id, node.boot] = now, counts
        rates: dict[str, Any] = {}
        if before is not None and now > before[0]:
            passed, old = now - before[0], before[1]
            rates = {name: max(0.0, (counts[name] - old[name]) / passed) for name in counts if name in old}
        return Figures(
            **rates,
            p50=node.resume_p50,
            p99=node.resume_p99,
            store=node.store_seconds,
            lag=node.loop_lag_p99,
            busy=node.loop_busy,
            parked=node.parked,
            running=node.in_flight,
            frames=node.frames,
            rss=node.rss,
        )

    def _tools_since(self, nodes: Iterable[ToolsStatus]) -> dict[str, ToolFigures]:
        """What was counted of each tool since the last sample, on all nodes that answered both times."""
        before, self._tools = self._tools, {}
        found: dict[str, ToolFigures] = {}
        for node in nodes:
            for tool in node.tools:
                life = node.node_id, node.boot, tool.tool
                self._tools[life] = tool
                new = difference(tool, before[life]) if life in before else _NOTHING
                if tool.parked or new != _NOTHING:
                    here = ToolFigures(**dict(new), parked=tool.parked)
                    found[tool.tool] = added([found[tool.tool], here], summed) if tool.tool in found else here
        return dict(sorted(found.items())[:MAX_TOOLS])


def difference(now: ToolCounts, before: ToolCounts) -> ToolCounts:
    """What was counted since `before`."""
    if all(getattr(now, name) == getattr(before, name) for name in _COUNTS):
        return _NOTHING  # of most tools at most times
    found: dict[str, Any] = {}
    for name in _COUNTS:
        new, old = getattr(now, name), getattr(before, name)
        if isinstance(new, tuple):
            differences = tuple(max(0, a - b) for a, b in zip_longest(new, old, fillvalue=0))
            found[name] = differences if any(differences) else ()
        else:
            found[name] = max(0, new - old)
    return ToolCounts(**found)


def added(figures: Sequence[ToolFigures], of_parked: Callable[[Sequence[float]], float]) -> ToolFigures:
    """The figures of one tool in several slots, or on several nodes. Counts are added; `of_parked` makes one number of
    the numbers of parked calls."""
    found: dict[str, Any] = {}
    for name in _COUNTS:
        values = [getattr(item, name) for item in figures]
        if isinstance(values[0], tuple):
            found[name] = tuple(map(summed, zip_longest(*values, fillvalue=0)))
        else:
            found[name] = summed(values)
    parked = [item.parked for item in figures if item.parked is not None]
    return ToolFigures(**found, parked=round(of_parked(parked)) if parked else None)


def release(nodes: Iterable[NodeView]) -> str:
    """What the nodes serve, by their own answers: their versions of Framehold, and a digest of the code of their
    handlers. Empty if there are no nodes."""
    answers = list(nodes)
    versions = sorted({str(node.version) for node in answers})
    code = sorted({f"{item.handler} {item.digest}" for node in answers for item in node.kept_code})
    named = [*versions, hashlib.sha256("\n".join(code).encode()).hexdigest()[:8]] if code else versions
    return " ".join(named)


def of_fleet(nodes: Iterable[Figures]) -> Figures:
    """The figures of all these nodes together, in one slot."""
    return _combined(list(nodes), summed)


def of_several(samples: Sequence[Sample]) -> Sample:
    """One sample for several slots. Of the fleet, and of each node while it was there: means of rates and counts,
    medians of medians, and the highest of the rest. Of tools: sums of counts, and the mean of parked calls."""
    names = sorted({node for sample in samples for node in sample.nodes})[:MAX_NODES]
    tools = sorted({tool for sample in samples for tool in sample.tools})[:MAX_TOOLS]

    def parked(counts: Sequence[float]) -> float:
        # A tool that is left out of a slot had none.
        return sum(counts) / len(samples)

    return Sample(
        nodes={name: _combined([item.nodes[name] for item in samples if name in item.nodes], fmean) for name in names},
        fleet=_combined([item.fleet for item in samples], fmean),
        tools={name: added([item.tools[name] for item in samples if name in item.tools], parked) for name in tools},
        release=samples[-1].release if samples else "",
    )


def _combined(figures: Sequence[Figures], add: Callable[[Sequence[float]], float]) -> Figures:
    """One for several. `add` makes one value of rates, counts and bytes."""
    found: dict[str, Any] = {}
    for name in SERIES:
        values = [value for item in figures if (value := getattr(item, name)) is not None]
        if not values:
            continue
        if name in _HIGHEST:
            found[name] = max(values)
        elif name in _MIDDLE:
            found[name] = median(values)
        else:
            found[name] = add(values) if name in _RATES else round(add(values))
    return Figures(**found)


def packed(sample: Sample) -> bytes:
    """A sample as the store keeps it."""
    return zlib.compress(sample.model_dump_json(exclude_defaults=True).encode())


def unpacked(data: bytes) -> Sample | None:
    """A sample that the store kept; None if it can't be read: somebody else wrote it, or a newer release did."""
    try:
        return Sample.model_validate_json(zlib.decompressobj().decompress(data, MAX_BYTES))
    except (zlib.error, ValidationError):
        return None
