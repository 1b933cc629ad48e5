"""`python -m framehold_loadtest.bench`: run the sections, print their tables, keep the raw figures, fill pages.

Exit code 1 if a call had an error or something could not be measured (its reason is printed), 2 if this machine
cannot run the benchmark at all, or a page can't be filled. A missed target is a figure, not an error.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from framehold_loadtest.bench import (
    calls,
    command,
    frames,
    kinds,
    pages,
    relays,
    replay,
    servers,
    steps,
    store,
    survival,
)
from framehold_loadtest.bench.targets import standing
from framehold_loadtest.local import machine
from framehold_loadtest.local.listeners import Cores, pick_cores
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.table import facts

Measure = Callable[[Cores], Mapping[str, Any]]


def sections(*, quick: bool) -> dict[str, Measure]:
    """What each section does; on a quiet machine the full ones take some nine minutes, the quick ones four."""
    turns = 12 if quick else 60
    return {
        "calls": partial(calls.measure, servers.CALLS, servers.BASES, calls.Plan(turns, warm=0.1, seconds=0.3)),
        "kinds": partial(kinds.measure, *((5, 60) if quick else (15, 100))),
        "steps": steps.measure,
        "single": partial(
            calls.measure, servers.SINGLE, servers.BASES, calls.Plan(turns // 3, 0.1, 0.2, connections=1)
        ),
        "frames": partial(frames.measure, *(((100, 10_000), 4, 250) if quick else ((100, 20_000, 100_000), 10, 400))),
        "store": partial(store.measure, 1.5 if quick else 5.0),
        "router": partial(relays.measure, calls.Plan(turns, warm=0.1, seconds=0.3)),
        "replay": partial(replay.measure, 12 if quick else 30),
        "survival": partial(survival.measure, *((3, 1_000) if quick else (5, 10_000))),
    }


def main() -> int:
    """Run the chosen sections, or show what an earlier run has measured."""
    parser = argparse.ArgumentParser(prog=pages.PROGRAM, description="The speed of Framehold, measured.")
    parser.add_argument("--quick", action="store_true", help="shorter runs and fewer frames, about four minutes")
    only = (
        "run this section (repeatable): whole calls beside the SDK's, each kind of handler, the functions that a round "
        "enters, one call at a time, parked frames, store writes, the router, what `once` costs, or "
        "calls whose node is gone"
    )
    parser.add_argument("--only", choices=pages.SECTIONS, action="append", help=only)
    options = command.parsed(parser)
    chosen = options.only or pages.SECTIONS
    return command.play(options, pages.PROGRAM, lambda: _run(chosen, options.quick), _targets, pages.parts)


def _targets(measured: Mapping[str, Any]) -> str:
    return standing(measured, only=not measured.keys() >= set(pages.SECTIONS)).text()


def _run(names: Sequence[str], quick: bool) -> dict[str, Any]:
    """Measure and print section by section."""
    runs, cores = sections(quick=quick), pick_cores()
    head = {"command": pages.PROGRAM + (" --quick" if quick else ""), **machine.describe(cores)}
    print(facts(head), flush=True)
    took: dict[str, float] = {}
    measured: dict[str, Any] = {"quick": quick, "machine": head, "seconds": took}
    for name in names:
        began = time.monotonic()
        measured[name] = _measured(name, runs[name], cores)
        took[name] = time.monotonic() - began
        for table in pages.tables(name, measured[name]):
            print(table.text())
        print(f"  section {name}: {took[name]:.0f} s", flush=True)
    return measured


def _measured(name: str, measure: Measure, cores: Cores) -> dict[str, Any]:
    """What a section found; the reason where it could not be measured at all."""
    common: dict[str, Any] = {"rows": [], "not_available": {}}
    try:
        return common | dict(measure(cores))
    except NotAvailable as reason:
        return common | {"not_available": {name: str(reason)}}


if __name__ == "__main__":
    sys.exit(main())
