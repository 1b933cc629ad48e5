"""What it costs to keep nothing: calls per CPU second, held against replayed, beside the SDK's hand-written handler.

The tool is that of section `calls`, in all servers of Framehold marked re-entrant; they differ by a setting alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from framehold_loadtest.bench.calls import BASELINE, CONNECTIONS, settings
from framehold_loadtest.bench.children import Cores, Listener, NotAvailable, redis_server, run_json, serving
from framehold_loadtest.bench.relays import Spread
from framehold_loadtest.bench.tradegen import Traded

HOLD = "framehold, hold, memory"
SERVERS: dict[str, Mapping[str, str]] = {
    BASELINE: {},
    HOLD: {"FRAMEHOLD_STRATEGY": "hold"},
    "framehold, hold, Redis": {"FRAMEHOLD_STRATEGY": "hold"},
    "framehold, replay": {"FRAMEHOLD_STRATEGY": "replay"},
    "framehold, rehearse": {"FRAMEHOLD_STRATEGY": "hold", "FRAMEHOLD_REHEARSE": "true"},
}
"""The servers by name, and what sets them apart."""
_SPARE_SECONDS = 40.0
_SECONDS_PER_CALL = 0.03  # on a slow machine


@dataclass(frozen=True, slots=True)
class Row:
    """One server over all its turns. CPU in seconds per call; ratios of calls per CPU second turn by turn. CPU seconds
    are the server's and its store's."""

    server: str
    calls_per_cpu_second: float
    server_cpu: Spread
    store_cpu: float
    calls_per_second: float
    busy: float
    load_busy: float
    to_hold: Spread | None
    to_sdk: Spread | None


def measure(turns: int, calls: int, cores: Cores) -> dict[str, Any]:
    """Run all servers in turn; returns their rows, raw runs, and what was not available.

    Raises:
        NotAvailable: the generator failed.
    """
    missing: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        sites = _start(stack, cores, missing)
        arguments: list[object] = ["--connections", CONNECTIONS, "--turns", turns, "--calls", calls]
        for server, store in sites.values():
            arguments += ["--site", server.port, server.pid, store.pid if store else 0]
        timeout = _SPARE_SECONDS + _SECONDS_PER_CALL * turns * calls * len(sites)
        found = run_json("tradegen", [str(word) for word in arguments], cores.load, timeout)
        runs = {name: Traded(**run) for name, run in zip(sites, found, strict=True)}
        for name, run in runs.items():
            if run.failure:
                missing[name] = f"{run.failure}{sites[name][0].last_words()}"
    measured = {name: run for name, run in runs.items() if not run.failure}
    return {
        "connections": CONNECTIONS,
        "turns": turns,
        "calls": calls,
        "rows": [asdict(_row(name, measured, calls)) for name in measured],
        "runs": {name: asdict(run) for name, run in runs.items()},
        "not_available": missing,
    }


def _start(
    stack: contextlib.ExitStack, cores: Cores, missing: dict[str, str]
) -> dict[str, tuple[Listener, Listener | None]]:
    """The servers and their stores; reasons for those that are missing."""
    sites: dict[str, tuple[Listener, Listener | None]] = {}
    for name, chosen in SERVERS.items():
        try:
            store = stack.enter_context(redis_server(cores.load)) if name.endswith("Redis") else None
            variant = BASELINE if name == BASELINE else "reentrant"
            environment = {} if name == BASELINE else settings(store) | dict(chosen)
            sites[name] = stack.enter_context(serving(variant, cores.server, environment)), store
        except NotAvailable as reason:
            missing[name] = str(reason)
    return sites


def _row(name: str, runs: Mapping[str, Traded], calls: int) -> Row:
    mine = runs[name]
    costs = {other: _cost(run) for other, run in runs.items()}

    def ratio(other: str) -> Spread | None:
        if other == name or other not in costs:
            return None
        return Spread.of([theirs / cost for theirs, cost in zip(costs[other], costs[name], strict=True)])

    return Row(
        server=name,
        calls_per_cpu_second=median(calls / cost for cost in costs[name]),
        server_cpu=Spread.of([cpu / calls for cpu in mine.server_cpu]),
        store_cpu=median(mine.store_cpu) / calls,
        calls_per_second=median(calls / seconds for seconds in mine.seconds),
        busy=_share(mine.server_cpu, mine),
        load_busy=_share(mine.load_cpu, mine),
        to_hold=ratio(HOLD),
        to_sdk=ratio(BASELINE),
    )


def _cost(run: Traded) -> list[float]:
    """CPU of server and store of each turn."""
    return [sum(parts) for parts in zip(run.server_cpu, run.store_cpu, strict=True)]


def _share(cpu: list[float], run: Traded) -> float:
    return median(used / seconds for used, seconds in zip(cpu, run.seconds, strict=True))
