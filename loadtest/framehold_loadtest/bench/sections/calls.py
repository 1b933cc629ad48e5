"""Section `calls`: complete two-round calls per second, the SDK beside Framehold.

All servers (and the store) run at once on the measured core, and take turns of less than a second; a ratio compares
two turns that follow each other. Single turns differ by a third on a busy machine, and the median of many pairs by a
hundredth or two; long turns, one server after the other, can't tell 5 %. The CPU of a call includes that of its store.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from framehold_loadtest.bench.generators.calls import Measured, Site
from framehold_loadtest.bench.lab.servers import BASELINE, CONNECTIONS, DEFAULT, Target, Window, load_in_turn, running
from framehold_loadtest.local.listeners import Cores
from framehold_loadtest.local.process import NotAvailable

SERVERS = (
    *(BASELINE, DEFAULT, "framehold memory", "framehold redis"),
    *("framehold node, memory", "framehold node, redis"),
)
"""The SDK's, Framehold's under uvicorn, and Framehold's as `framehold node` serves it."""


@dataclass(frozen=True, slots=True)
class CallsPlan:
    """How many turns each server has, and how long one is loaded before and in a turn; seconds."""

    turns: int
    warm: float
    seconds: float


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """The medians of one server over its turns; times in seconds, ratios to the baseline in the same turn.
    `default_cpu_ratios` are those to the SDK's default mode.

    `server_busy` is the server's share of its core: well below 1, something else used that core, and CPU per call
    says more than calls per second. `load_busy` near 1: the generator was the limit.
    """

    server: str
    calls_per_second: float
    ratio: float | None
    ratios: list[float]
    cpu_per_call: float
    cpu_ratio: float | None
    cpu_ratios: list[float]
    default_cpu_ratios: list[float]
    store_cpu_per_call: float
    server_busy: float
    load_busy: float
    first_p50: float
    first_p99: float
    second_p50: float
    second_p99: float
    errors: dict[str, int]


def measure(plan: CallsPlan, cores: Cores) -> dict[str, Any]:
    """Load all servers in turn; returns their rows, raw turns, and what was not available."""
    missing: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        targets: dict[str, Target] = {}
        for server in SERVERS:
            try:
                targets[server] = stack.enter_context(running(server, cores))
            except NotAvailable as reason:
                missing[server] = str(reason)
        sites = [Site(it.child.port, it.child.pid, it.store.pid if it.store else 0) for it in targets.values()]
        turns: list[list[Measured]] = [[] for _ in sites]
        try:
            # The first turn of each is not counted.
            turns = load_in_turn(sites, 1 + plan.turns, Window(plan.warm, plan.seconds), cores) if sites else []
        except NotAvailable as reason:
            missing |= dict.fromkeys(targets, str(reason))
    runs: dict[str, list[Measured]] = {server: [] for server in SERVERS}
    runs |= {server: found[1:] for server, found in zip(targets, turns, strict=True)}
    for server in targets:
        if not all(turn.calls for turn in runs[server]):
            # Nothing can be compared with it.
            runs[server], missing[server] = [], "in some turn no call completed"
    rows = [_row(runs, server) for server in SERVERS if server not in missing]
    return {
        "connections": CONNECTIONS,
        "plan": asdict(plan),
        "rows": [asdict(row) for row in rows],
        "runs": {server: [asdict(run) for run in measured] for server, measured in runs.items()},
        "not_available": missing,
    }


def _rate(run: Measured) -> float:
    return run.calls / run.seconds


def _cpu(run: Measured) -> float:
    return (run.server_cpu + run.store_cpu) / run.calls


def _cheaper(runs: list[Measured], base: list[Measured]) -> list[float]:
    """How many calls each run completed with the CPU of one call of its counterpart."""
    return [_cpu(other) / _cpu(run) for run, other in zip(runs, base, strict=False)]


def _median(ratios: list[float]) -> float | None:
    return median(ratios) if ratios else None


def _row(all_runs: Mapping[str, list[Measured]], server: str) -> ServerFigures:
    runs = all_runs[server]
    ratios = [_rate(run) / _rate(base) for run, base in zip(runs, all_runs[BASELINE], strict=False)]
    cpu_ratios = _cheaper(runs, all_runs[BASELINE])
    kinds = {kind for run in runs for kind in run.errors}
    return ServerFigures(
        server=server,
        calls_per_second=median(map(_rate, runs)),
        ratio=_median(ratios),
        ratios=ratios,
        cpu_per_call=median(run.server_cpu / run.calls for run in runs),
        cpu_ratio=_median(cpu_ratios),
        cpu_ratios=cpu_ratios,
        default_cpu_ratios=_cheaper(runs, all_runs[DEFAULT]),
        store_cpu_per_call=median(run.store_cpu / run.calls for run in runs),
        server_busy=median(run.server_cpu / run.seconds for run in runs),
        load_busy=median(run.load_cpu / run.seconds for run in runs),
        first_p50=median(run.first_p50 for run in runs),
        first_p99=median(run.first_p99 for run in runs),
        second_p50=median(run.second_p50 for run in runs),
        second_p99=median(run.second_p99 for run in runs),
        errors={kind: sum(run.errors.get(kind, 0) for run in runs) for kind in sorted(kinds)},
    )
