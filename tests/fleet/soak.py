"""`python -m tests.fleet.soak`: each test of a fault again and again, then faults of all kinds at random under load.

Meanwhile a fault must explain each problem that a router names, and a node or a router that ends must be named.

The law of the mixed hour: whatever happens to three nodes, two routers and their store, a re-entrant call that has a
token comes to its right end, no effect runs twice, no unmarked handler is entered twice. The ledger on disk says so.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fleet.faults import FaultyFleet, started
from tests.fleet.load import Load
from tests.fleet.truth import Truth
from tests.fleet.weather import Weather
from tests.kit.processes import ROOT

TESTS = ("tests/fleet/cells", "tests/fleet/test_random_kills.py")
FIGURE = "resume of a call"
"""What a test's line says that has measured something."""
NODES, ROUTERS, CLIENTS = 3, 2, 20


def each(times: int) -> Counter[str]:
    """Run every test of a fault so often; how often each of them failed."""
    failed: Counter[str] = Counter()
    for number in range(1, times + 1):
        command = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", *TESTS]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        lines = run.stdout.splitlines()
        red = [line.split(" - ")[0] for line in lines if line.startswith(("FAILED", "ERROR"))]
        failed.update(red)
        if run.returncode and not red:
            failed["pytest itself"] += 1
        print(f"{number} of {times}: {lines[-1] if lines else run.stderr.strip()}", flush=True)
        for line in (*red, *(line for line in lines if FIGURE in line)):
            print(f"    {line}", flush=True)
    return failed


async def mixed(minutes: float, seed: int, folder: Path) -> bool:
    """Play weather on a fleet under load; whether everything held."""
    made = FaultyFleet(folder)
    try:
        await started(made, NODES, ROUTERS)
        load, weather = Load(made, seed), Weather(made, seed)
        truth, began = Truth(made, weather), time.monotonic()
        working = asyncio.create_task(load.run(CLIENTS))
        watching = asyncio.create_task(truth.watch())
        try:
            await weather.play(began + 60 * minutes)
            await made.mend()
            load.stop()
            await working
        finally:
            working.cancel()
            watching.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)
        if not watching.cancelled():
            watching.result()  # It ended by itself: raise why.
        held = told(made, load, weather, time.monotonic() - began)
        return said(truth) and held
    finally:
        made.stop()


def told(made: FaultyFleet, load: Load, weather: Weather, seconds: float) -> bool:
    """Print what happened; whether it was all right."""
    ledger = made.ledger
    repeated = ledger.repeated()
    again = ledger.entered_again(load.unmarked)
    settled = ledger.settled()
    undone = [call for call in load.completed if len(settled[call]) != load.effects(call)]
    rows = [
        ("seconds", f"{seconds:.0f}"),
        ("faults", ", ".join(f"{name} {count}" for name, count in sorted(weather.done.items()))),
        ("calls begun", f"{load.begun} ({load.unborn} more had no reply to their first round)"),
        ("calls completed", f"{len(load.completed)}"),
        ("unmarked calls told that they were lost", f"{load.told_lost}"),
        ("longest wait for a reply", "{:.1f} s, {}".format(*load.longest)),
        ("effects run", f"{len(ledger.lines(what='effect'))}"),
        ("effects in doubt", f"{len(ledger.lines(what='doubt'))}"),
        ("re-entrant calls lost (must be 0)", f"{len(load.lost)}"),
        ("calls with a wrong end (must be 0)", f"{len(load.wrong)}"),
        ("effects run twice (must be 0)", f"{len(repeated)}"),
        ("unmarked handlers entered twice (must be 0)", f"{len(again)}"),
        ("completed calls that miss an effect (must be 0)", f"{len(undone)}"),
        ("processes that met a bug (must be 0)", f"{len(made.buggy())}"),
    ]
    width = max(len(name) for name, _ in rows)
    print("\n".join(f"{name:<{width}}  {value}" for name, value in rows), flush=True)
    for line in (*load.lost, *load.wrong, *map(str, repeated), *again, *undone, *made.buggy()):
        print(f"    {line}")
    return not (load.lost or load.wrong or repeated or again or undone or made.buggy())


def said(truth: Truth) -> bool:
    """Print what the verdict said of the faults; whether all of it was true, and no fault went unnamed."""
    silent = truth.silent()
    print(f"looks at the verdict: {truth.looks}; problems that a fault explains: {dict(truth.seen.most_common())}")
    print(f"problems that nothing explains (must be 0): {len(truth.false)}")
    print(f"faults that nobody named (must be 0): {len(silent)}", flush=True)
    for line in (*(f"{name}: {text}" for name, text in truth.false.items()), *silent):
        print(f"    {line}")
    return not truth.false and not silent


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fleet.soak", description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="how often each test of a fault is run (10)")
    parser.add_argument("--minutes", type=float, default=60, help="how long faults are mixed (60)")
    parser.add_argument("--seed", type=int, default=1, help="of the mixture (1)")
    chosen = parser.parse_args()
    failed = each(chosen.times)
    held = True
    if chosen.minutes:
        folder = Path(tempfile.mkdtemp(prefix="framehold-soak-"))
        held = asyncio.run(mixed(chosen.minutes, chosen.seed, folder))
        print(f"logs and ledger: {folder}")
    print(f"tests that failed: {dict(failed) or 'none'}")
    return int(bool(failed) or not held)


if __name__ == "__main__":
    sys.exit(main())
