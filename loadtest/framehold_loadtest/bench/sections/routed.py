"""A real node with Redis, alone and behind `framehold router`: the latency and the CPU that the router adds.

Node and router share the measured core, so calls per CPU second are those of a whole fleet. The same node process is
called both ways, in turn.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from framehold_loadtest.bench.generators.calls import Measured, Site
from framehold_loadtest.bench.generators.hops import Hops
from framehold_loadtest.bench.lab import proxies
from framehold_loadtest.bench.lab.servers import CONNECTIONS, Window, load_in_turn, run_json, serving, settings
from framehold_loadtest.local.listeners import Cores, Listener, redis_server

ALONE, BEHIND = "node alone", "node behind the router"
_SPARE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class RoutedPlan:
    """Batches of calls one at a time for the latency; then repetitions under load, in seconds."""

    batches: int
    batch_size: int
    repetitions: int
    warm: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Hop:
    """The medians of a round's seconds over all batches, and what the router added in each batch."""

    round: int
    straight: float
    routed: float
    added: list[float]


@dataclass(frozen=True, slots=True)
class WayFigures:
    """The medians of one way to the node. CPU in seconds per call, ratios of calls per CPU second to the node alone."""

    way: str
    calls_per_second: float
    calls_per_cpu_second: float
    ratios: list[float]
    router_cpu: float
    node_cpu: float
    store_cpu: float
    first_p50: float
    first_p99: float
    second_p50: float
    second_p99: float
    errors: dict[str, int]


def measure(plan: RoutedPlan, cores: Cores) -> dict[str, Any]:
    """Latency first, then load; returns `Hop`s, `WayFigures` and the raw runs.

    Raises:
        NotAvailable: Redis, the node or the router does not start, or a run failed.
    """
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(redis_server(cores.load))
        common = settings(store)
        node = stack.enter_context(serving("framehold", cores.server, common))
        # It tells its port before it has its lease: the router's start waits for that.
        router = stack.enter_context(proxies.framehold_router(cores.server, common, 1))
        hops = _hops(plan, node, router, cores)
        sites = Site(node.port, node.pid, store.pid), Site(router.port, node.pid, store.pid, router.pid)
        turns = load_in_turn(sites, plan.repetitions, Window(plan.warm, plan.seconds), cores)
        runs = dict(zip((ALONE, BEHIND), turns, strict=True))
    return {
        "connections": CONNECTIONS,
        "plan": asdict(plan),
        "hops": [asdict(hop) for hop in hops],
        "rows": [asdict(_row(way, found, runs[ALONE])) for way, found in runs.items()],
        "runs": {way: [asdict(run) for run in found] for way, found in runs.items()},
    }


def _hops(plan: RoutedPlan, node: Listener, router: Listener, cores: Cores) -> list[Hop]:
    arguments = ["--port", node.port, "--router", router.port]
    arguments += ["--batches", plan.batches, "--batch-size", plan.batch_size]
    hops = Hops(**run_json("hops", arguments, cores.load, _SPARE_SECONDS))
    return [
        _hop(1, hops.straight_first, hops.routed_first),
        _hop(2, hops.straight_second, hops.routed_second),
    ]


def _hop(number: int, straight: list[float], routed: list[float]) -> Hop:
    added = [long - short for short, long in zip(straight, routed, strict=True)]
    return Hop(number, median(straight), median(routed), added)


def _row(way: str, runs: list[Measured], alone: list[Measured]) -> WayFigures:
    kinds = {kind for run in runs for kind in run.errors}
    return WayFigures(
        way=way,
        calls_per_second=median(run.calls / run.seconds for run in runs),
        calls_per_cpu_second=median(map(_yield, runs)),
        ratios=[] if runs is alone else [_yield(run) / _yield(base) for run, base in zip(runs, alone, strict=True)],
        router_cpu=median(run.router_cpu / run.calls for run in runs),
        node_cpu=median(run.server_cpu / run.calls for run in runs),
        store_cpu=median(run.store_cpu / run.calls for run in runs),
        first_p50=median(run.first_p50 for run in runs),
        first_p99=median(run.first_p99 for run in runs),
        second_p50=median(run.second_p50 for run in runs),
        second_p99=median(run.second_p99 for run in runs),
        errors={kind: sum(run.errors.get(kind, 0) for run in runs) for kind in sorted(kinds)},
    )


def _yield(run: Measured) -> float:
    return run.calls / (run.router_cpu + run.server_cpu + run.store_cpu)
