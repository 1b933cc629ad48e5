"""`python -m framehold_loadtest.bench`: run the sections, print their tables, keep the raw figures, fill the page.

Exit code 1 if a call had an error or something could not be measured (its reason is printed), 2 if this machine
cannot run the benchmark at all, or the page can't be filled. A missed target is a figure, not an error.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from framehold_loadtest import page as marks
from framehold_loadtest.bench import (
    calls,
    frames,
    lease_bench,
    machine,
    metrics_bench,
    page,
    replay_bench,
    report,
    routed,
    router_bench,
    server_bench,
    store_write,
    survival,
)
from framehold_loadtest.bench.children import Cores, NotAvailable, pick_cores
from framehold_loadtest.bench.standing import standing

SECTIONS = ("calls", "server", "frames", "store", "router", "replay", "survival")
ASKED_FOR = ("metrics", "leases")
"""Sections that run only where they are asked for: they compare Framehold with itself, or take minutes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What each section does; on a quiet machine the full one takes some eight minutes, the quick one three."""

    calls: calls.Plan
    server: server_bench.Plan
    frames: frames.Plan
    store_seconds: float
    router: router_bench.Plan
    replay: replay_bench.Plan
    survival: survival.Plan
    metrics: metrics_bench.Plan
    leases: lease_bench.Plan


FULL = Plan(
    calls=calls.Plan(repetitions=3, warm=1.0, seconds=6.0),
    server=server_bench.Plan(turns=20, requests=3000),
    frames=frames.Plan(frames=(100, 20_000, 100_000), batches=10, batch_size=400),
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
    server=server_bench.Plan(turns=8, requests=2000),
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
    """Run the chosen sections, or show what an earlier run has measured."""
    options = _parse()
    sections = options.only or SECTIONS
    try:
        measured = json.loads(options.load.read_text()) if options.load else _run(sections, quick=options.quick)
        if options.json:
            options.json.write_text(json.dumps(measured, indent=2) + "\n")
        if measured.keys() >= set(SECTIONS):
            print(standing(measured).text())
        if options.page:
            marks.fill(options.page, page.PROGRAM, page.parts(measured, SECTIONS))
    except (NotAvailable, OSError, ValueError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    return int(any(map(_incomplete, (measured[name] for name in sections if name in measured))))


def _run(sections: Sequence[str], *, quick: bool) -> dict[str, Any]:
    """Measure and print section by section.

    Raises:
        NotAvailable: this machine can't run any.
    """
    if sys.platform != "linux":
        raise NotAvailable("needs Linux, for /proc and for pinning processes to cores")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    plan, cores = QUICK if quick else FULL, pick_cores()
    command = page.PROGRAM + (" --quick" if quick else "")
    facts = {"command": command, **machine.describe(cores)}
    print(report.head(facts), flush=True)
    took: dict[str, float] = {}
    measured: dict[str, Any] = {"quick": quick, "machine": facts, "seconds": took}
    for name in sections:
        began = time.monotonic()
        measured[name] = _measure(name, plan, cores)
        took[name] = time.monotonic() - began
        for table in page.TABLES[name](measured[name]):
            print(table.text())
        print(f"  section {name}: {took[name]:.0f} s", flush=True)
    return measured


def _incomplete(section: Mapping[str, Any]) -> bool:
    return bool(section["not_available"]) or any(row.get("errors") for row in section.get("rows", []))


def _measure(name: str, plan: Plan, cores: Cores) -> Mapping[str, Any]:
    runs: dict[str, Callable[[], Mapping[str, Any]]] = {
        "calls": lambda: calls.measure(plan.calls, cores),
        "server": lambda: server_bench.measure(plan.server, cores),
        "frames": lambda: frames.measure(plan.frames, cores),
        "store": lambda: store_write.measure(plan.store_seconds, cores),
        "router": lambda: router_bench.measure(plan.router, cores),
        "replay": lambda: replay_bench.measure(plan.replay, cores),
        "survival": lambda: survival.measure(plan.survival, cores),
        "metrics": lambda: metrics_bench.measure(plan.metrics, cores),
        "leases": lambda: lease_bench.measure(plan.leases, cores),
    }
    return runs[name]()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=page.PROGRAM, description="The speed of Framehold, measured.")
    parser.add_argument("--quick", action="store_true", help="shorter runs and fewer frames, about three minutes")
    only = (
        "run this section (repeatable): whole calls beside the SDK's, parked frames, store writes, the router, what "
        "replays, tokens and `once` cost, or calls whose node is gone; only if asked for, what metrics cost, and how "
        "long a listing of calls takes"
    )
    parser.add_argument("--only", choices=(*SECTIONS, *ASKED_FOR), action="append", help=only)
    return marks.parsed(parser)


if __name__ == "__main__":
    sys.exit(main())
