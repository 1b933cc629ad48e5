"""Two-round calls of all peers in one run: started at once, driven in turn, each beside the SDK of the same turn.

Law: a figure is a ratio between two windows that follow each other on the same core. A peer that fails in one turn is
shown as not available, with its reason, and keeps none of its figures. Those that wait for their turn take a few per
cent of the core, mostly Restate's server, from all alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from framehold_loadtest.bench.generators.calls import Measured
from framehold_loadtest.bench.lab import servers
from framehold_loadtest.bench.lab.servers import BASELINE, CONNECTIONS, DEFAULT, Target, Window
from framehold_loadtest.local.listeners import Cores
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.peers.servers import Peer


@dataclass(frozen=True, slots=True)
class PeersPlan:
    """How often each is driven, in how long windows; seconds. `lead` runs before all, for what compiles while it runs,
    and `warm` before each window."""

    turns: int
    lead: float
    warm: float
    seconds: float


@dataclass(frozen=True, slots=True)
class PeerFigures:
    """The medians of one peer over its turns. CPU in seconds per call, ratios to the SDK of the same turn.

    `rates` are of calls per second, `costs` of CPU per call with its store's; `default_rates` and `default_costs` are
    those to the SDK in its default mode. `busy` is the share of the core that the
    peer had: well below 1, something else had the rest, and the costs say more than the rates.
    """

    peer: str
    rates: list[float]
    costs: list[float]
    default_rates: list[float]
    default_costs: list[float]
    calls_per_second: float
    server_cpu: float
    store_cpu: float
    busy: float
    load_busy: float
    first_p50: float
    first_p99: float
    second_p50: float
    second_p99: float
    errors: dict[str, int]


def measure(plan: PeersPlan, peers: Mapping[str, Peer], cores: Cores) -> dict[str, Any]:
    """Drive all peers; returns their rows, raw runs, and what was not available."""
    missing: dict[str, str] = {}
    runs: dict[str, list[Measured]] = {name: [] for name in peers}
    with contextlib.ExitStack() as stack:
        targets = _start(stack, peers, cores, missing)
        lead = Window(warm=0.0, seconds=plan.lead)
        _turn(lead, peers, targets, cores, missing)
        for _ in range(plan.turns):
            each = Window(plan.warm, plan.seconds)
            for name, run in _turn(each, peers, targets, cores, missing).items():
                runs[name].append(run)
    return {
        "connections": CONNECTIONS,
        "plan": asdict(plan),
        "peers": {name: peer.what for name, peer in peers.items()},
        "rows": [asdict(row) for row in rows({name: runs[name] for name in peers if name not in missing})],
        "runs": {name: [asdict(run) for run in found] for name, found in runs.items()},
        "not_available": missing,
    }


def rows(runs: Mapping[str, list[Measured]]) -> list[PeerFigures]:
    """What the runs of each peer come to: as many of each, in the same order."""
    return [_row(name, found, runs) for name, found in runs.items() if found]


def _start(
    stack: contextlib.ExitStack, peers: Mapping[str, Peer], cores: Cores, missing: dict[str, str]
) -> dict[str, Target]:
    """Those that run; peers that share a start share what it starts."""
    targets: dict[str, Target] = {}
    started: dict[Any, Target | NotAvailable] = {}
    for name, peer in peers.items():
        if peer.start not in started:
            try:
                started[peer.start] = stack.enter_context(peer.start(cores.server))
            except NotAvailable as reason:
                started[peer.start] = reason
        found = started[peer.start]
        if isinstance(found, NotAvailable):
            missing[name] = str(found)
        else:
            targets[name] = found
    return targets


def _turn(
    window: Window, peers: Mapping[str, Peer], targets: Mapping[str, Target], cores: Cores, missing: dict[str, str]
) -> dict[str, Measured]:
    done = {}
    for name, target in targets.items():
        if name not in missing:
            try:
                done[name] = servers.load(target, window, cores, peers[name].call)
            except NotAvailable as reason:
                missing[name] = str(reason)
    return done


def _row(name: str, runs: list[Measured], of_all: Mapping[str, list[Measured]]) -> PeerFigures:
    pairs, defaults = (_pairs(name, base, of_all) for base in (BASELINE, DEFAULT))
    kinds = {kind for run in runs for kind in run.errors}
    return PeerFigures(
        peer=name,
        rates=[_rate(run) / _rate(other) for run, other in pairs],
        costs=[_cost(run) / _cost(other) for run, other in pairs],
        default_rates=[_rate(run) / _rate(other) for run, other in defaults],
        default_costs=[_cost(run) / _cost(other) for run, other in defaults],
        calls_per_second=median(map(_rate, runs)),
        server_cpu=median(run.server_cpu / run.calls for run in runs),
        store_cpu=median(run.store_cpu / run.calls for run in runs),
        busy=median((run.server_cpu + run.store_cpu) / run.seconds for run in runs),
        load_busy=median(run.load_cpu / run.seconds for run in runs),
        first_p50=median(run.first_p50 for run in runs),
        first_p99=median(run.first_p99 for run in runs),
        second_p50=median(run.second_p50 for run in runs),
        second_p99=median(run.second_p99 for run in runs),
        errors={kind: sum(run.errors.get(kind, 0) for run in runs) for kind in sorted(kinds)},
    )


def _pairs(name: str, base: str, runs: Mapping[str, list[Measured]]) -> list[tuple[Measured, Measured]]:
    """Each run of a peer beside that of `base` in the same turn."""
    others = runs.get(base, [])
    return [] if name == base else list(zip(runs[name], others, strict=bool(others)))


def _rate(run: Measured) -> float:
    return run.calls / run.seconds


def _cost(run: Measured) -> float:
    return (run.server_cpu + run.store_cpu) / run.calls
