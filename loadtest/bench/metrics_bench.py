"""Section `metrics`: what counting costs, as pairs of runs of the same node with `FRAMEHOLD_METRICS` on and off.

The store is in memory: a call costs the least there, so that counting is the largest part of it. Each run has a fresh
server, and the pairs take turns in which of the two comes first: what drifts meanwhile harms both alike.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any

from loadtest.bench import calls
from loadtest.bench.children import Cores, NotAvailable
from loadtest.bench.loadgen import Measured

SERVER = "framehold memory"


@dataclass(frozen=True, slots=True)
class Plan:
    """How many pairs, and how long each run of them is."""

    pairs: int
    calls: calls.Plan


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of all pairs: by how much it is worse with metrics, as a share, the median and the quartiles."""

    figure: str
    median: float
    lower: float
    upper: float
    least: float
    most: float
    errors: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs, one right after the other. The shares say how much worse the one with metrics is."""

    on_calls_per_second: float
    off_calls_per_second: float
    slowdown: float
    more_cpu: float
    """CPU of the server per call: what other work on these cores blurs less."""


def measure(plan: Plan, cores: Cores) -> dict[str, Any]:
    """Run all pairs; returns each, its raw runs, and the rows."""
    runs: list[dict[str, Measured]] = []
    missing: dict[str, str] = {}
    try:
        for turn in range(plan.pairs):
            order = ("true", "false") if turn % 2 else ("false", "true")
            runs.append({on: calls.run_once(SERVER, plan.calls, cores, {"FRAMEHOLD_METRICS": on}) for on in order})
    except NotAvailable as reason:
        missing[SERVER] = str(reason)
    pairs = [_pair(run["true"], run["false"]) for run in runs]
    errors = sum(sum(measured.errors.values()) for run in runs for measured in run.values())
    return {
        "server": SERVER,
        "connections": calls.CONNECTIONS,
        "plan": asdict(plan),
        "pairs": [asdict(pair) for pair in pairs],
        "rows": [asdict(row) for row in _rows(pairs, errors)],
        "runs": [{name: asdict(measured) for name, measured in run.items()} for run in runs],
        "not_available": missing,
    }


def _pair(on: Measured, off: Measured) -> Pair:
    rates = on.calls / on.seconds, off.calls / off.seconds
    cpu = (on.server_cpu / on.calls) / (off.server_cpu / off.calls)
    return Pair(*rates, slowdown=1 - rates[0] / rates[1], more_cpu=cpu - 1)


def _rows(pairs: list[Pair], errors: int) -> list[Row]:
    if len(pairs) < 2:
        return []
    return [
        _row("calls per second", [pair.slowdown for pair in pairs], errors),
        _row("CPU per call", [pair.more_cpu for pair in pairs], errors),
    ]


def _row(figure: str, shares: list[float], errors: int) -> Row:
    lower, _, upper = quantiles(shares, n=4, method="inclusive")
    return Row(figure, median(shares), lower, upper, min(shares), max(shares), errors)
