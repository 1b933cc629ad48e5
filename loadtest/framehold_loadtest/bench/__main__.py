"""`python -m framehold_loadtest.bench`: run the sections, print their tables, keep the raw figures, fill pages.

Exit code 1 if a call had an error or something could not be measured (its reason is printed), 2 if this machine
cannot run the benchmark at all, or a page can't be filled. A missed target is a figure, not an error.
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

from framehold_loadtest import marked_page as marks
from framehold_loadtest.bench.sections import (
    calls,
    frames,
    kinds,
    replay,
    routed,
    router,
    single,
    steps,
    store,
    survival,
)
from framehold_loadtest.bench.tables import performance
from framehold_loadtest.bench.tables.table import head
from framehold_loadtest.bench.tables.targets import standing
from framehold_loadtest.local import machine
from framehold_loadtest.local.listeners import Cores, pick_cores
from framehold_loadtest.local.process import NotAvailable

SECTIONS = tuple(performance.TABLES)


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """What each section does; on a quiet machine the full one takes some nine minutes, the quick one four."""

    calls: calls.CallsPlan
    kinds: kinds.KindsPlan
    single: single.SinglePlan
    frames: frames.FramesPlan
    store_seconds: float
    router: router.RouterPlan
    replay: replay.ReplayPlan
    survival: survival.SurvivalPlan


FULL = BenchPlan(
    calls=calls.CallsPlan(turns=60, warm=0.1, seconds=0.3),
    kinds=kinds.KindsPlan(turns=15, calls=100),
    single=single.SinglePlan(turns=20, calls=100),
    frames=frames.FramesPlan(frames=(100, 20_000, 100_000), batches=10, batch_size=400),
    store_seconds=5.0,
    router=router.RouterPlan(
        routed.RoutedPlan(batches=20, batch_size=100, repetitions=3, warm=1.0, seconds=5.0), turns=50, requests=3000
    ),
    replay=replay.ReplayPlan(replays=10, onces=30),
    survival=survival.SurvivalPlan(turns=5, calls=10_000),
)
QUICK = BenchPlan(
    calls=calls.CallsPlan(turns=12, warm=0.1, seconds=0.3),
    kinds=kinds.KindsPlan(turns=5, calls=60),
    single=single.SinglePlan(turns=8, calls=50),
    frames=frames.FramesPlan(frames=(100, 10_000), batches=4, batch_size=250),
    store_seconds=1.5,
    router=router.RouterPlan(
        routed.RoutedPlan(batches=8, batch_size=50, repetitions=3, warm=0.5, seconds=1.5), turns=15, requests=2000
    ),
    replay=replay.ReplayPlan(replays=5, onces=12),
    survival=survival.SurvivalPlan(turns=3, calls=1_000),
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
            marks.fill(options.page, performance.PROGRAM, performance.parts(measured))
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
    command = performance.PROGRAM + (" --quick" if quick else "")
    facts = {"command": command, **machine.describe(cores)}
    print(head(facts), flush=True)
    took: dict[str, float] = {}
    measured: dict[str, Any] = {"quick": quick, "machine": facts, "seconds": took}
    for name in sections:
        began = time.monotonic()
        measured[name] = _measure(name, plan, cores)
        took[name] = time.monotonic() - began
        for table in performance.TABLES[name](measured[name]):
            print(table.text())
        print(f"  section {name}: {took[name]:.0f} s", flush=True)
    return measured


def _incomplete(section: Mapping[str, Any]) -> bool:
    return bool(section["not_available"]) or any(row.get("errors") for row in section.get("rows", []))


def _measure(name: str, plan: BenchPlan, cores: Cores) -> Mapping[str, Any]:
    runs: dict[str, Callable[[], Mapping[str, Any]]] = {
        "calls": lambda: calls.measure(plan.calls, cores),
        "kinds": lambda: kinds.measure(plan.kinds, cores),
        "steps": lambda: steps.measure(cores),
        "single": lambda: single.measure(plan.single, cores),
        "frames": lambda: frames.measure(plan.frames, cores),
        "store": lambda: store.measure(plan.store_seconds, cores),
        "router": lambda: router.measure(plan.router, cores),
        "replay": lambda: replay.measure(plan.replay, cores),
        "survival": lambda: survival.measure(plan.survival, cores),
    }
    return runs[name]()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=performance.PROGRAM, description="The speed of Framehold, measured.")
    parser.add_argument("--quick", action="store_true", help="shorter runs and fewer frames, about four minutes")
    only = (
        "run this section (repeatable): whole calls beside the SDK's, each kind of handler, the functions that a round "
        "enters, one call at a time, parked frames, store writes, the router, what replays, tokens and `once` cost, or "
        "calls whose node is gone"
    )
    parser.add_argument("--only", choices=SECTIONS, action="append", help=only)
    return marks.parsed(parser)


if __name__ == "__main__":
    sys.exit(main())
