"""CPU per request of what stands in front of nodes: `framehold router`, a plain aiohttp relay, HAProxy.

All of them run at once in front of the same stub nodes and take turns of the same number of requests. A ratio compares
two turns that follow each other. A run straight to a stub node shows how much the core of the load can do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from framehold_loadtest.bench.generators.relays import Relayed
from framehold_loadtest.bench.lab import proxies
from framehold_loadtest.bench.lab.servers import CONNECTIONS, run_json, settings
from framehold_loadtest.bench.subjects.stub_nodes import NODES
from framehold_loadtest.local.listeners import Cores, Listener, announced, free_ports, redis_server
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.stats import Spread

ROUTER, AIOHTTP, HAPROXY, STRAIGHT = "framehold router", "aiohttp relay", "haproxy", "(straight)"
RELAYS = (ROUTER, AIOHTTP, HAPROXY)
_SPARE_SECONDS = 60.0
_SECONDS_PER_REQUEST = 0.003  # of all relays together, on a slow machine


@dataclass(frozen=True, slots=True)
class RelayFigures:
    """One relay over all its turns. CPU in seconds per request; ratios by the relay compared with, turn by turn.

    `busy` is its share of its core, `upstream_busy` and `load_busy` are shares of the other: where those two reach 1
    together, the load was the limit, and the relay was never full.
    """

    relay: str
    cpu_per_request: Spread
    requests_per_second: float
    busy: float
    upstream_busy: float
    load_busy: float
    ratios: dict[str, Spread]


def measure(turns: int, requests: int, cores: Cores) -> dict[str, Any]:
    """Run all relays in turn; returns their rows, raw runs, and what was not available."""
    missing: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        sites, upstream = _start(stack, cores, missing)
        arguments: list[object] = ["--upstream", upstream.pid, "--connections", CONNECTIONS]
        arguments += ["--turns", turns, "--requests", requests]
        for site in sites.values():
            arguments += ["--site", site.port, site.pid]
        timeout = _SPARE_SECONDS + _SECONDS_PER_REQUEST * turns * requests
        found = run_json("relays", arguments, cores.load, timeout)
        runs = {name: Relayed(**run) for name, run in zip(sites, found, strict=True)}
        for name, run in runs.items():
            if run.failure:
                missing[name] = f"{run.failure}{sites[name].last_words()}"
    measured = {name: run for name, run in runs.items() if not run.failure}
    return {
        "connections": CONNECTIONS,
        "turns": turns,
        "requests": requests,
        "rows": [asdict(_row(name, measured, requests)) for name in measured],
        "runs": {name: asdict(run) for name, run in runs.items()},
        "not_available": missing,
    }


def _start(stack: contextlib.ExitStack, cores: Cores, missing: dict[str, str]) -> tuple[dict[str, Listener], Listener]:
    """The stub nodes, and what runs in front of them by its name; reasons for the rest in `missing`."""
    common = settings(stack.enter_context(redis_server(cores.load)))
    ports = free_ports(len(NODES))
    words = [word for port in ports for word in ("--port", str(port))]
    upstream = stack.enter_context(
        announced(["framehold_loadtest.bench.subjects.stub_nodes", *words], cores.load, common)
    )
    sites = {STRAIGHT: upstream}
    starts = _starts(cores.server, common, ports)
    for relay in RELAYS:
        try:
            sites[relay] = stack.enter_context(starts[relay])
        except NotAvailable as reason:
            missing[relay] = str(reason)
    return sites, upstream


def _starts(core: int, common: Mapping[str, str], ports: list[int]) -> dict[str, AbstractContextManager[Listener]]:
    return {
        ROUTER: proxies.framehold_router(core, common, len(ports)),
        AIOHTTP: proxies.aiohttp_relay(core, common, ports),
        HAPROXY: proxies.haproxy(core, common, ports),
    }


def _row(relay: str, runs: Mapping[str, Relayed], requests: int) -> RelayFigures:
    mine = runs[relay]
    others = [other for other in RELAYS if relay != STRAIGHT and other != relay and other in runs]
    return RelayFigures(
        relay=relay,
        cpu_per_request=Spread.of([cpu / requests for cpu in mine.relay_cpu]),
        requests_per_second=median(requests / seconds for seconds in mine.seconds),
        busy=_share(mine.relay_cpu, mine),
        upstream_busy=_share(mine.upstream_cpu, mine),
        load_busy=_share(mine.load_cpu, mine),
        ratios={
            other: Spread.of([cpu / theirs for cpu, theirs in zip(mine.relay_cpu, runs[other].relay_cpu, strict=True)])
            for other in others
        },
    )


def _share(cpu: list[float], run: Relayed) -> float:
    return median(used / seconds for used, seconds in zip(cpu, run.seconds, strict=True))
