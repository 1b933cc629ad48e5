"""Section `single`: what a round takes at one call at a time, beside the SDK's handler without a store.

A node is called directly and through `framehold router`. Its Redis appends each write to a file, and syncs this file
once a second (`everysec`, the default of Redis) or before each reply (`always`). Servers and router run on the measured
core, Redis and the load on the other. All of them run at once and take turns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from framehold_loadtest.bench.generators.calls import Site
from framehold_loadtest.bench.generators.singles import Rounds
from framehold_loadtest.bench.lab import proxies
from framehold_loadtest.bench.lab.servers import BASELINE, DEFAULT, run_json, serving, settings
from framehold_loadtest.bench.subjects.serve import FRAMEHOLD
from framehold_loadtest.local.listeners import Cores, redis_server
from framehold_loadtest.local.process import NotAvailable

MEMORY = "framehold memory"
SYNCS = ("everysec", "always")
ROUTED = ", router"
_SPARE_SECONDS = 60.0
_SECONDS_PER_CALL = 0.05  # on a slow disk


@dataclass(frozen=True, slots=True)
class SinglePlan:
    """How many turns, and how many calls of each site in a turn."""

    turns: int
    calls: int


@dataclass(frozen=True, slots=True)
class SingleFigures:
    """The medians of one site over its turns, seconds of a round. `ratios` are those of its p50 to the baseline's in
    the same turn, `default_ratios` to that of the SDK's default mode."""

    server: str
    p50: float
    ratios: list[float]
    default_ratios: list[float]
    server_cpu: float
    router_cpu: float
    store_cpu: float


def measure(plan: SinglePlan, cores: Cores) -> dict[str, Any]:
    """Call all sites in turn; returns a `SingleFigures` for each, or why there is none."""
    try:
        with contextlib.ExitStack() as stack:
            sites = _sites(stack, cores)
            found = _found(plan, sites, cores)
    except NotAvailable as reason:
        return {"plan": asdict(plan), "rows": [], "not_available": {"single": str(reason)}}
    rows = [asdict(_row(name, found)) for name in sites]
    return {"plan": asdict(plan), "rows": rows, "not_available": {}}


def _sites(stack: contextlib.ExitStack, cores: Cores) -> dict[str, Site]:
    """All of them by name, started.

    Raises:
        NotAvailable: a process does not start.
    """
    sites = {}
    for name, variant in ((BASELINE, BASELINE), (DEFAULT, DEFAULT), (MEMORY, FRAMEHOLD)):
        environment = settings(None) if variant == FRAMEHOLD else {}
        server = stack.enter_context(serving(variant, cores.server, environment))
        sites[name] = Site(server.port, server.pid)
    for sync in SYNCS:
        store = stack.enter_context(redis_server(cores.load, sync=sync))
        common = settings(store)
        node = stack.enter_context(serving(FRAMEHOLD, cores.server, common))
        router = stack.enter_context(proxies.framehold_router(cores.server, common, 1))
        name = f"framehold redis, {sync}"
        sites[name] = Site(node.port, node.pid, store.pid)
        sites[name + ROUTED] = Site(router.port, node.pid, store.pid, router.pid)
    return sites


def _found(plan: SinglePlan, sites: Mapping[str, Site], cores: Cores) -> dict[str, Rounds]:
    arguments: list[object] = ["--turns", plan.turns, "--calls", plan.calls]
    for site in sites.values():
        arguments += ["--site", *site]
    timeout = _SPARE_SECONDS + _SECONDS_PER_CALL * len(sites) * plan.turns * plan.calls
    found = run_json("singles", arguments, cores.load, timeout)
    return {name: Rounds(**rounds) for name, rounds in zip(sites, found, strict=True)}


def _row(name: str, found: Mapping[str, Rounds]) -> SingleFigures:
    rounds = found[name]
    return SingleFigures(
        server=name,
        p50=median(rounds.p50),
        ratios=_slower(rounds, found[BASELINE]),
        default_ratios=_slower(rounds, found[DEFAULT]),
        server_cpu=median(rounds.server_cpu),
        router_cpu=median(rounds.router_cpu),
        store_cpu=median(rounds.store_cpu),
    )


def _slower(rounds: Rounds, base: Rounds) -> list[float]:
    return [seconds / other for seconds, other in zip(rounds.p50, base.p50, strict=True)]
