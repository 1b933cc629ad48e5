"""Section `replay`: what re-entering a handler costs, against holding its frame.

Two stages, one after the other, each in a process of its own on the measured core, without HTTP: the bytes of a
call's record in the store and in the token with the CPU of a replay by the length of its record; and what one `once`
costs. `framehold bench tradeoff` measures whole calls, held and replayed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from framehold_loadtest.bench.generators.onces import EFFECTS, Batches
from framehold_loadtest.bench.generators.replays import Found
from framehold_loadtest.bench.lab.servers import run_json
from framehold_loadtest.local.listeners import Cores, Listener, redis_server
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.stats import Spread

_SPARE_SECONDS = 60.0
_SECONDS_PER_REPETITION = 5.0  # on a slow machine


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """How often each stage repeats itself."""

    replays: int
    onces: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """One way to the last request of a call. CPU in seconds: of the whole request at each number of entries; of one
    more entry, and of a request with none, by the line through the shortest and the longest record."""

    what: str
    way: str
    requests: list[float]
    per_entry: Spread
    fixed: Spread


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a replay, done once: seconds for an entry."""

    what: str
    part: str
    per_entry: Spread


@dataclass(frozen=True, slots=True)
class Once:
    """One `once` beyond its effect, seconds; `writes` are those that reached the store."""

    store: str
    calls: int
    wall: Spread
    cpu: Spread
    store_cpu: float
    writes: float


def measure(plan: ReplayPlan, cores: Cores) -> dict[str, Any]:
    """Run both stages; returns what each found, and what was not available. It has no rows of whole calls."""
    missing: dict[str, str] = {}
    measured: dict[str, Any] = {"plan": asdict(plan), "rows": [], "not_available": missing}
    stages: dict[str, Callable[[], dict[str, Any]]] = {
        "record": lambda: _record(plan, cores),
        "once": lambda: _onces(plan, cores, missing),
    }
    for name, stage in stages.items():
        try:
            measured[name] = stage()
        except NotAvailable as reason:
            missing[name] = str(reason)
    return measured


def _record(plan: ReplayPlan, cores: Cores) -> dict[str, Any]:
    """Bytes and replays."""
    timeout = _SPARE_SECONDS + _SECONDS_PER_REPETITION * plan.replays
    found = Found(**run_json("replays", ["--repetitions", str(plan.replays)], cores.server, timeout))
    replays = [
        asdict(_replayed(what, way, runs, found.entries))
        for what, ways in found.requests.items()
        for way, runs in ways.items()
    ]
    parts = [
        asdict(Part(what, part, _slopes(runs, found.entries)))
        for what, costs in found.parts.items()
        for part, runs in costs.items()
    ]
    return {"replays": replays, "parts": parts, "found": asdict(found)}


def _replayed(what: str, way: str, runs: Sequence[Sequence[float]], entries: Sequence[int]) -> Replayed:
    slope = _slopes(runs, entries)
    fixed = Spread.of([run[0] - entries[0] * (run[-1] - run[0]) / (entries[-1] - entries[0]) for run in runs])
    return Replayed(what, way, [median(column) for column in zip(*runs, strict=True)], slope, fixed)


def _slopes(runs: Sequence[Sequence[float]], entries: Sequence[int]) -> Spread:
    return Spread.of([(run[-1] - run[0]) / (entries[-1] - entries[0]) for run in runs])


def _onces(plan: ReplayPlan, cores: Cores, missing: dict[str, str]) -> dict[str, Any]:
    """With Redis where there is one."""
    with contextlib.ExitStack() as stack:
        arguments = ["--repetitions", str(plan.onces)]
        try:
            store: Listener = stack.enter_context(redis_server(cores.load))
            arguments += ["--port", str(store.port), "--store", str(store.pid)]
        except NotAvailable as reason:
            missing["once, Redis"] = str(reason)
        timeout = _SPARE_SECONDS + _SECONDS_PER_REPETITION * plan.onces
        runs = [Batches(**run) for run in run_json("onces", arguments, cores.server, timeout)]
    rows = [
        Once(run.store, run.calls, Spread.of(run.wall), Spread.of(run.cpu), median(run.store_cpu), max(run.writes))
        for run in runs
    ]
    return {"effects": EFFECTS, "rows": [asdict(row) for row in rows], "runs": [asdict(run) for run in runs]}
