"""Plays many schedules, sums up what happened and where, and tells the story of the first that fails."""

from __future__ import annotations

import time
from collections import Counter
from functools import cache

import pytest

from tests.kit.processes import ROOT
from tests.sim import runs
from tests.sim.mutations import mutated
from tests.sim.played import Played

from .places import Places
from .plan import Plan, draw
from .world import World, play

PLAYED = ROOT / "tests" / "seeded" / "played.json"
CHUNK = 50
"""Schedules that a process plays: their worlds stay in its memory."""
ENOUGH = 500
"""Schedules after which the time is looked at."""
GROUPS = ("faults", "aims", "intents")
VISITS, STRIKES = "visits of ", "strikes at "
"""What comes before the name of a place in the counts. A place that nobody came to is there, with 0."""


@cache
def places() -> Places:
    """The places of the node, from now on and for the life of this process and of those that it forks."""
    found = Places()
    found.install_all(pytest.MonkeyPatch())
    return found


def run_part(first: int, count: int) -> runs.Part:
    """Play some schedules in a row, until one fails."""
    at, counts, failed = places(), Counter[str](), None
    for seed in range(first, first + count):
        world, error = play(draw(seed), at)
        counts += world.counts
        counts["schedules"] += 1
        if error is not None:
            failed = seed
            break
    for number, site in enumerate(map(str, at.sites)):
        counts[VISITS + site], counts[STRIKES + site] = at.visits[number], at.struck[number]
    return counts, failed


def _broken(plan: Plan) -> str:
    return str(play(plan, places())[1] or "").partition(":")[0]


def story(world: World, error: Exception | None) -> str:
    """A schedule, and what happened in it."""
    return "\n".join((*world.plan.lines(), "", *world.lines, "clean" if error is None else repr(error)))


def main(
    first: int, count: int, mutation: str | None = None, minutes: float | None = None, *, adds_up: bool = False
) -> int:
    """Play schedules, with a rule of core broken on purpose if `mutation` names one, and report. 1 if one failed.
    `adds_up`: play those behind the ones in PLAYED, and add them there."""
    with mutated(mutation):
        return _main(first, count, minutes, adds_up)


def _main(first: int, count: int, minutes: float | None, adds_up: bool) -> int:
    began, at, played = time.monotonic(), places(), Played(PLAYED)
    if adds_up:
        first = played.end
    if minutes is None:
        counts, failed = runs.run(run_part, first, count, CHUNK)
    else:
        counts, failed = runs.run_for(run_part, first, minutes, ENOUGH, CHUNK)
    seconds = time.monotonic() - began
    if failed is not None:
        print(story(*play(runs.smallest(draw(failed), _broken, GROUPS), at)))
        print(f"\nseed {failed} fails; above is the smallest schedule found that fails as it does")
        return 1
    visits = {name.removeprefix(VISITS): times for name, times in counts.items() if name.startswith(VISITS)}
    for name, times in visits.items():
        print(f"{times:9} {counts[STRIKES + name]:6}  {name}")
    done, missed = counts.pop("schedules"), sum(not times for times in visits.values())
    others = {name: times for name, times in sorted(counts.items()) if not name.startswith((VISITS, STRIKES))}
    print(f"{len(visits)} places, {missed} never come to; visits and strikes of each are above")
    print(f"{done} schedules clean in {seconds:.1f} s ({done / seconds:.1f}/s): {others}")
    if adds_up:
        print(f"{played.add(done)} schedules of this tree are clean in all")
    return 0
