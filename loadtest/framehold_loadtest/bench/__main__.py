"""`python -m framehold_loadtest.bench`: run the sections, print their tables, keep the raw figures.

Exit code 1 if a call had an error or something could not be measured (its reason is printed), 2 if this machine
cannot run the benchmark at all. A missed target is a figure, not an error.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framehold_loadtest.bench import (
    calls,
    frames,
    lease_bench,
    machine,
    metrics_bench,
    replay_bench,
    report,
    report_metrics,
    report_replay,
    report_router,
    report_survival,
    routed,
    router_bench,
    store_write,
    survival,
)
from framehold_loadtest.bench.children import Cores, pick_cores

SECTIONS = ("calls", "frames", "store", "router", "replay", "survival")
ASKED_FOR = ("metrics", "leases")
"""Sections that run only where they are asked for: they compare Framehold with itself, or take minutes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What each section does; the full one stays under seven minutes, the quick one under three."""

    calls: calls.Plan
    frames: frames.Plan
    store_seconds: float
    router: router_bench.Plan
    replay: replay_bench.Plan
    survival: survival.Plan
    metrics: metrics_bench.Plan
    leases: lease_bench.Plan


FULL = Plan(
    calls=calls.Plan(repetitions=3, warm=1.0, seconds=6.0),
    frames=frames.Plan(frames=(100, 10_000, 50_000), batches=10, batch_size=400),
    store_seconds=5.0,
    router=router_bench.Plan(
        routed.Plan(batches=20, batch_size=100, repetitions=3, warm=1.0, seconds=5.0), turns=50, requests=3000
    ),
    replay=replay_bench.Plan(replays=10, onces=30, turns=15, calls=400),
    survival=survival.Plan(turns=5, calls=10_000),
    metrics=metrics_bench.Plan(pairs=10, slices=12, calls=calls.Plan(repetitions=1, warm=0.15, seconds=0.6)),
    leases=lease_bench.Plan(calls=100_000, times=30),
)
QUICK = Plan(
    calls=calls.Plan(repetitions=3, warm=0.5, seconds=2.0),
    frames=frames.Plan(frames=(100, 10_000), batches=4, batch_size=250),
    store_seconds=1.5,
    router=router_bench.Plan(
        routed.Plan(batches=8, batch_size=50, repetitions=3, warm=0.5, seconds=1.5), turns=15, requests=2000
    ),
    replay=replay_bench.Plan(replays=5, onces=12, turns=10, calls=200),
    survival=survival.Plan(turns=3, calls=1_000),
    metrics=metrics_bench.Plan(pairs=3, slices=6, calls=calls.Plan(repetitions=1, warm=0.15, seconds=0.5)),
    leases=lease_bench.Plan(calls=10_000, times=10),
)


def main() -> int:
    """Run the chosen sections."""
    options = _parse()
    if sys.platform != "linux":
        print("bench: needs Linux, for /proc and for pinning processes to cores", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    plan, cores = QUICK if options.quick else FULL, pick_cores()
    facts = machine.describe(cores)
    print("framehold bench" + (" --quick" if options.quick else ""))
    print(report.head(facts), flush=True)
    measured: dict[str, Any] = {"quick": options.quick, "machine": facts}
    for name in options.only or SECTIONS:
        measured[name] = _measure(name, plan, cores)
    if options.json:
        options.json.write_text(json.dumps(measured, indent=2) + "\n")
    return int(any(map(_incomplete, (measured[name] for name in options.only or SECTIONS))))


def _incomplete(section: Mapping[str, Any]) -> bool:
    return bool(section["not_available"]) or any(row.get("errors") for row in section.get("rows", []))


def _measure(name: str, plan: Plan, cores: Cores) -> Mapping[str, Any]:
    runs: dict[str, tuple[Callable[[], Mapping[str, Any]], Callable[[Mapping[str, Any]], str]]] = {
        "calls": (lambda: calls.measure(plan.calls, cores), report.calls),
        "frames": (lambda: frames.measure(plan.frames, cores), report.frames),
        "store": (lambda: store_write.measure(plan.store_seconds, cores), report.store),
        "router": (lambda: router_bench.measure(plan.router, cores), report_router.router),
        "replay": (lambda: replay_bench.measure(plan.replay, cores), report_replay.replay),
        "survival": (lambda: survival.measure(plan.survival, cores), report_survival.survival),
        "metrics": (lambda: metrics_bench.measure(plan.metrics, cores), report_metrics.metrics),
        "leases": (lambda: lease_bench.measure(plan.leases, cores), lease_bench.leases),
    }
    run, show = runs[name]
    section = run()
    print(show(section), flush=True)
    return section


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m framehold_loadtest.bench", description="The speed of Framehold, measured."
    )
    parser.add_argument("--quick", action="store_true", help="shorter runs and fewer frames, under three minutes")
    only = (
        "run this section (repeatable): whole calls beside the SDK's, parked frames, store writes, the router, what "
        "replays, tokens and `once` cost, or calls whose node is gone; only if asked for, what metrics cost, and how "
        "long a listing of calls takes"
    )
    parser.add_argument("--only", choices=(*SECTIONS, *ASKED_FOR), action="append", help=only)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every raw figure to PATH")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
