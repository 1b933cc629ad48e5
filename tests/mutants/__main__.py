"""`python -m tests.mutants`: takes decisions out, one at a time, and keeps what noticed each.

What is known of a mutant is kept in `results.json` while its function stays as it is. There `why` says why nothing need
notice one that is green. Exit code 1: nothing noticed one of those that were played, and no reason is given.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from tests.kit.processes import ROOT
from tests.seeded import report

from .places import FILES, Mutant, mutants
from .rooms import Unsure, learn, noticed
from .worlds import in_child

RESULTS = ROOT / "tests" / "mutants" / "results.json"
GREEN = "green"


def _read() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found


def _write(results: dict[str, dict[str, str]]) -> None:
    RESULTS.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")


Played = tuple[Mutant, str | None]
"""A mutant, and what noticed it: empty if nothing did, None if nobody can say."""


def _noticed(mutant: Mutant, *, is_quick: bool, by: tuple[str, ...] = ()) -> Played:
    try:
        return mutant, noticed(mutant, by, is_quick=is_quick)
    except Unsure as error:
        print(f"{mutant.name:75} is not played: {error}", flush=True)
        return mutant, None


def _scheduled(mutant: Mutant) -> Played:
    return mutant, in_child(mutant)


def _played(mutant: Mutant, *, is_quick: bool) -> Played:
    played = _scheduled(mutant)
    return played if played[1] else _noticed(mutant, is_quick=is_quick)


def _play(chosen: Iterable[Mutant], results: dict[str, dict[str, str]], play: Callable[[Mutant], Played]) -> list[str]:
    """Play mutants on all cores, and keep what noticed each. Returns the green ones."""
    report.places()
    fresh = []
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        for mutant, by in pool.imap_unordered(play, chosen):
            if by is None:
                continue
            found = {"digest": mutant.digest, "place": f"{mutant.kind} {mutant.text}", "by": by or GREEN}
            if not by:
                fresh.append(mutant.name)
                if "why" in (before := results.get(mutant.name, {})):
                    found["why"] = before["why"]
            results[mutant.name] = found
            print(f"{mutant.name:75} {mutant.kind:10} {by or GREEN}", flush=True)
            _write(results)
    return fresh


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--file", action="append", choices=FILES, help="only mutants of this file")
    parser.add_argument("--again", action="store_true", help="play those, too, of which a result is kept")
    parser.add_argument("--green", action="store_true", help="play those that nothing has noticed")
    parser.add_argument("--quick", action="store_true", help="play the fastest of the tests that execute it alone")
    parser.add_argument("--schedules", action="store_true", help="play schedules alone")
    parser.add_argument("--tests", nargs="+", default=(), help="with --green: have these tests look at them")
    parser.add_argument("--minutes", type=float, default=0, help="begin none after so many minutes")
    chosen = parser.parse_args()
    known, before = [mutant for file in FILES for mutant in mutants(file)], _read()
    results = {mutant.name: found for mutant in known if (found := _kept(before, mutant)) is not None}
    asked = [item for item in known if item.file in (chosen.file or FILES)]
    green = {name for name, found in results.items() if found["by"] == GREEN}
    left = [item for item in asked if chosen.again or item.name not in results]
    if chosen.green:
        left = [item for item in asked if item.name in green]
    if not chosen.tests and not chosen.schedules:
        # Before they are played: each process of the pool would learn it for itself.
        learn()
    end = time.monotonic() + 60 * chosen.minutes if chosen.minutes else float("inf")
    play: Callable[[Mutant], Played] = partial(_played, is_quick=chosen.quick)
    if chosen.schedules:
        play = _scheduled
    elif chosen.green:
        play = partial(_noticed, by=tuple(chosen.tests), is_quick=chosen.quick)
    fresh = _play((item for item in left if time.monotonic() < end), results, play)
    by = Counter(found["by"].partition(",")[0].partition(":")[0] for found in results.values())
    print(f"{len(results)} of {len(known)} mutants played: {dict(by.most_common())}")
    unexplained = [name for name, found in results.items() if found["by"] == GREEN and "why" not in found]
    print(f"{len(unexplained)} are green without a reason", *unexplained, sep="\n")
    return int(any(name in unexplained for name in fresh))


def _kept(results: dict[str, dict[str, str]], mutant: Mutant) -> dict[str, str] | None:
    found = results.get(mutant.name)
    return found if found is not None and found["digest"] == mutant.digest else None


if __name__ == "__main__":
    sys.exit(main())
