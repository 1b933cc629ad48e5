"""Section `survival`: what a client sees when the node of its call is gone, and what that costs the next node.

Each row is a small fleet of its own: Redis, two nodes and a router. Calls are parked on the first node, that node is
ended, and all calls are answered at once through the router. The calls of a storm have two nodes that carry them on,
each on a core. A ledger on disk counts the effects. The statistics of Redis count its scripts.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import redis

from framehold_loadtest.bench import subjects
from framehold_loadtest.bench.generators.storm import GIVES_UP, Storm
from framehold_loadtest.bench.lab import proxies
from framehold_loadtest.bench.lab.servers import run_json, settings
from framehold_loadtest.local.listeners import Cores, Listener, announced, framehold_port, redis_server
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.local.usage import rss_bytes

TTL = 1.0
"""Seconds of a node's lease."""
ROUNDS, ONCES = 2, 2
"""Rounds and effects under `once` of one call."""
_SERVER = Path(subjects.__file__).with_name("storm_server.py")
_SPARE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class SurvivalPlan:
    """How often one call is carried on, and how many are at once."""

    turns: int
    calls: int


@dataclass(frozen=True, slots=True)
class StormFigures:
    """One way to end a node. Seconds until the first and the last answer, medians over `turns`; `scripts` are those
    that the store ran for each call, reads and leases included; memory is that of the node which carries on."""

    way: str
    turns: int
    calls: int
    first: float
    slowest: float
    last: float
    refused: int
    lost: int
    twice: int
    scripts: float
    rss_before: int
    rss_peak: int
    errors: dict[str, int]


def measure(plan: SurvivalPlan, cores: Cores) -> dict[str, Any]:
    """One call after SIGKILL and after SIGTERM, some times; then a storm."""
    ways = (("SIGKILL", plan.turns, 1), ("SIGTERM", plan.turns, 1), ("SIGKILL", 1, plan.calls))
    rows: list[dict[str, Any]] = []
    missing: dict[str, str] = {}
    for way, turns, calls in ways:
        try:
            rows.append(asdict(_row(way, [_storm(way, calls, cores) for _ in range(turns)])))
        except NotAvailable as reason:
            missing[f"{calls} calls, {way}"] = str(reason)
    return {"plan": asdict(plan), "ttl": TTL, "rows": rows, "not_available": missing}


@dataclass(frozen=True, slots=True)
class _Seen:
    storm: Storm
    done: Counter[str]
    scripts: int
    before: int
    peak: int


def _row(way: str, seen: list[_Seen]) -> StormFigures:
    storms = [item.storm for item in seen]
    calls = storms[0].calls
    wanted = calls * ONCES
    lost = sum(storm.calls - storm.finished for storm in storms) + sum(wanted - len(item.done) for item in seen)
    twice = sum(times > 1 for item in seen for times in item.done.values())
    return StormFigures(
        way=way,
        turns=len(seen),
        calls=calls,
        first=median(storm.first for storm in storms),
        slowest=max(storm.first for storm in storms),
        last=median(storm.last for storm in storms),
        refused=sum(storm.refused for storm in storms),
        lost=lost,
        twice=twice,
        scripts=sum(item.scripts for item in seen) / (calls * len(seen)),
        rss_before=seen[0].before,
        rss_peak=max(item.peak for item in seen),
        errors={name: count for name, count in (("lost", lost), ("effects twice", twice)) if count},
    )


def _storm(way: str, calls: int, cores: Cores) -> _Seen:
    """One fleet and one storm."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = stack.enter_context(redis_server(cores.load))
        common = {**settings(store), "FRAMEHOLD_LEASE_TTL": str(TTL), "LEDGER": str(folder / "ledger")}
        first, second = (stack.enter_context(_node(name, cores.server, common)) for name in ("a", "b"))
        nodes = 2
        if calls > 1:
            stack.enter_context(_node("c", cores.load, common))
            nodes = 3
        router = stack.enter_context(proxies.framehold_router(cores.load, common, nodes))
        # Parked on the first, and it alone: whatever the router would have chosen.
        arguments = ["--park", first.port, "--node", first.pid, "--signal", way, "--port", router.port]
        before = rss_bytes(second.pid)
        peak = stack.enter_context(_peak(second.pid))
        words = [str(word) for word in (*arguments, "--calls", calls)]
        found = Storm(**run_json("storm", words, cores.load, GIVES_UP + _SPARE_SECONDS))
        done = Counter((folder / "ledger").read_text().splitlines())
        return _Seen(found, done, _scripts(store), before, max(peak))


@contextlib.contextmanager
def _node(name: str, core: int, common: Mapping[str, str]) -> Iterator[Listener]:
    argv = ["framehold", "node", str(_SERVER), "--port", "0"]
    with announced(argv, core, {**common, "FRAMEHOLD_NODE_ID": name}, framehold_port) as node:
        yield node


@contextlib.contextmanager
def _peak(pid: int) -> Iterator[list[int]]:
    """What a process has resident meanwhile, bytes, ten times a second."""
    seen, over = [rss_bytes(pid)], threading.Event()

    def watch() -> None:
        while not over.wait(0.1) and os.path.exists(f"/proc/{pid}/statm"):
            seen.append(rss_bytes(pid))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield seen
    finally:
        over.set()
        watching.join()


def _scripts(store: Listener) -> int:
    """How many scripts this Redis has run."""
    with redis.Redis(port=store.port, protocol=2) as client:
        client.ping()
        stats: Any = client.info("commandstats")
    return int(stats.get("cmdstat_evalsha", {}).get("calls", 0))
