"""Plays many schedules on all cores, sums up what happened and where, and tells the story of the first that fails."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest

from tests.sim.mutations import mutated
from tests.sim.shrink import shrink

from .places import Places
from .plan import Plan, draw
from .world import World, play

CHUNK = 50
"""Schedules that a process plays: their worlds stay in its memory."""
ENOUGH = 500
"""Schedules after which the time is looked at."""
GROUPS = ("faults", "aims", "intents")


@dataclass(slots=True)
class Part:
    """Some schedules in a row: what happened, how often each place was come to and struck, and the seed that failed."""

    counts: Counter[str]
    visits: Counter[str]
    struck: Counter[str]
    failed: int | None = None

    def add(self, part: Part) -> None:
        """Add what happened in other schedules. A place that nobody came to stays, with 0."""
        self.counts.update(part.counts)
        self.visits.update(part.visits)
        self.struck.update(part.struck)
        self.failed = part.failed


@cache
def places() -> Places:
    """The places of the node, from now on and for the life of this process and of those that it forks."""
    found = Places()
    found.install_all(pytest.MonkeyPatch())
    return found


def run_part(first: int, runs: int) -> Part:
    at, counts, failed = places(), Counter[str](), None
    for seed in range(first, first + runs):
        world, error = play(draw(seed), at)
        counts += world.counts
        counts["schedules"] += 1
        if error is not None:
            failed = seed
            break
    names = [str(site) for site in at.sites]
    visits, struck = (Counter({names[n]: found[n] for n in range(len(names))}) for found in (at.visits, at.struck))
    return Part(counts, visits, struck, failed)


def parts(first: int, runs: int) -> Iterator[Part]:
    """Schedules of the seeds from `first` on, in processes."""
    places()
    chunks = [(at, min(CHUNK, first + runs - at)) for at in range(first, first + runs, CHUNK)]
    cores = min(len(chunks), os.cpu_count() or 1)
    # Each process plays one part, and begins with what this one has: the places, and what is broken on purpose.
    with multiprocessing.get_context("fork").Pool(cores, maxtasksperchild=1) as pool:
        yield from (future.get() for future in [pool.apply_async(run_part, chunk) for chunk in chunks])


def run(first: int, runs: int) -> Part:
    total = Part(Counter(), Counter(), Counter())
    for part in parts(first, runs):
        total.add(part)
        if part.failed is not None:
            break
    return total


def smallest(plan: Plan, at: Places) -> Plan:
    """A schedule that fails, shrunk to what still breaks the same."""
    broken = _broken(plan, at)
    return shrink(plan, lambda candidate: _broken(candidate, at) == broken, groups=GROUPS)


def _broken(plan: Plan, at: Places) -> str:
    error = play(plan, at)[1]
    return "" if error is None else str(error).partition(":")[0]


def story(world: World, error: Exception | None) -> str:
    return "\n".join((*world.plan.lines(), "", *world.lines, "clean" if error is None else repr(error)))


def run_for(first: int, minutes: float) -> Part:
    """Play schedules until one fails, or until the time is over."""
    total, end = Part(Counter(), Counter(), Counter()), time.monotonic() + 60 * minutes
    while total.failed is None and time.monotonic() < end:
        total.add(run(first + total.counts["schedules"], ENOUGH))
    return total


def main(first: int, runs: int, mutation: str | None = None, minutes: float | None = None) -> int:
    """Play schedules, with a rule of core broken on purpose if `mutation` names one, and report. 1 if one failed."""
    with mutated(mutation):
        return _main(first, runs, minutes)


def _main(first: int, runs: int, minutes: float | None) -> int:
    began = time.monotonic()
    found = run(first, runs) if minutes is None else run_for(first, minutes)
    seconds = time.monotonic() - began
    if found.failed is not None:
        at = places()
        small = smallest(draw(found.failed), at)
        print(story(*play(small, at)))
        print(f"\nseed {found.failed} fails; above is the smallest schedule found that fails as it does")
        return 1
    for name, times in found.visits.items():
        print(f"{times:9} {found.struck[name]:6}  {name}")
    done, missed = found.counts.pop("schedules"), [name for name, times in found.visits.items() if not times]
    print(f"{len(found.visits)} places, {len(missed)} never come to; visits and strikes of each are above")
    print(f"{done} schedules clean in {seconds:.1f} s ({done / seconds:.1f}/s): {dict(sorted(found.counts.items()))}")
    return 0
