"""Section `metrics`: what counting costs, as pairs of the same node with `FRAMEHOLD_METRICS` on and off.

The store is in memory: a call costs the least there, so that counting is the largest part of it. A pair is two fresh
servers that are loaded in turns, a slice of time each: a machine that others share is faster now and slower then by
more than counting costs, and both meet both.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any

from framehold_loadtest.bench import calls
from framehold_loadtest.bench.children import Cores, NotAvailable
from framehold_loadtest.bench.loadgen import Measured

SERVER = "framehold memory"


@dataclass(frozen=True, slots=True)
class Plan:
    """How many pairs, how many slices each of the two has in one, and how long a slice is."""

    pairs: int
    slices: int
    calls: calls.Plan


@dataclass(slots=True)
class Total:
    """What one of the two came to in all its slices."""

    calls: int = 0
    seconds: float = 0.0
    server_cpu: float = 0.0
    errors: int = 0

    def add(self, measured: Measured) -> None:
        """Take one slice in."""
        self.calls += measured.calls
        self.seconds += measured.seconds
        self.server_cpu += measured.server_cpu
        self.errors += sum(measured.errors.values())


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
    """Two servers, loaded in turns. The shares say how much worse the one with metrics is."""

    on_calls_per_second: float
    off_calls_per_second: float
    slowdown: float
    more_cpu: float
    """CPU of the server per call: what other work on these cores blurs less."""


def measure(plan: Plan, cores: Cores) -> dict[str, Any]:
    """Run all pairs; returns each, its raw runs, and the rows."""
    runs: list[dict[str, Total]] = []
    missing: dict[str, str] = {}
    try:
        for _ in range(plan.pairs):
            runs.append(_run(plan, cores))
    except NotAvailable as reason:
        missing[SERVER] = str(reason)
    pairs = [_pair(run["true"], run["false"]) for run in runs]
    errors = sum(total.errors for run in runs for total in run.values())
    return {
        "server": SERVER,
        "connections": calls.CONNECTIONS,
        "plan": asdict(plan),
        "pairs": [asdict(pair) for pair in pairs],
        "rows": [asdict(row) for row in _rows(pairs, errors)],
        "runs": [{name: asdict(total) for name, total in run.items()} for run in runs],
        "not_available": missing,
    }


def _run(plan: Plan, cores: Cores) -> dict[str, Total]:
    """One pair."""
    totals = {on: Total() for on in ("true", "false")}
    with contextlib.ExitStack() as stack:
        targets = {on: stack.enter_context(calls.running(SERVER, cores, {"FRAMEHOLD_METRICS": on})) for on in totals}
        for turn in range(plan.slices):
            # A B, B A, A B: what drifts harms both alike.
            for on in sorted(totals, reverse=bool(turn % 2)):
                totals[on].add(calls.load(targets[on], plan.calls, cores))
    return totals


def _pair(on: Total, off: Total) -> Pair:
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
