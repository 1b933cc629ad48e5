"""Run many schedules over the cores, sum up what happened in them, and tell the story of the first that fails."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial

from tests.kit.processes import ROOT

from . import runs
from .adversary import ACTS
from .mutations import mutated
from .plan import Plan, draw
from .played import Played
from .runs import Part
from .world import play

INTERESTING = (
    "parks",
    "finishes",
    "joins",
    "conflicts",
    "relays",
    "takeovers",
    "verifies",
    "heals",
    "fenced",
    "behind",
    "already",
    "ungated",
    "lapses",
    "crashes",
    "re-runs",
    "in doubt",
    "withheld",
    "ended lost",
    "ended stuck",
    "suspects waited",
    "frames rehearsed",
    "frames evicted",
    "frames released",
    "frames expired",
    "frames fenced",
    "stopped",
    "no room",
    "said invalid",
    "split",
    "lapse faults",
    "failover faults",
    "forget faults",
    "emptied",
    "skip faults",
    "jump faults",
    "drains",
    "offered",
    "passed on to the very code",
    "divergences",
    "said unreadable",
    "ended diverged",
    "finished after a divergence",
    *(f"act {kind}" for kind in ACTS),
    "ended forgotten",
    "ended unreadable",
)
"""What a long run must have seen."""

ENOUGH = 5000
"""Schedules of which some must have seen each of these: the rarest shows in about one of 700."""

PLAYED = ROOT / "tests" / "sim" / "played.json"
CHUNK = 200


def run_part(first: int, count: int, mutation: str | None = None) -> Part:
    """Some schedules in a row: the counts, and the seed that failed."""
    counts: Counter[str] = Counter()
    with mutated(mutation):
        for seed in range(first, first + count):
            world, violation = play(draw(seed))
            counts.update(world.counts)
            if violation is not None:
                return counts, seed
    return counts, None


def unseen(counts: Counter[str]) -> list[str]:
    """What a long run has not seen; nothing if the run is too short to tell."""
    return [name for name in INTERESTING if not counts[name]] if counts["schedules"] >= ENOUGH else []


def smallest(seed: int, mutation: str | None = None) -> Plan:
    """The plan of a failing seed, shrunk to what still breaks the same invariant."""
    with mutated(mutation):
        return runs.smallest(draw(seed), _broken)


def _broken(plan: Plan) -> str:
    return str(play(plan)[1] or "").split(":")[0]


def story(plan: Plan, mutation: str | None = None) -> tuple[str, bool]:
    """The transcript of a plan, and whether all invariants held."""
    with mutated(mutation):
        world, violation = play(plan, recording=True)
    return "\n".join((*plan.lines(), "", *(world.lines or ()), "")), violation is None


def summary(counts: Counter[str], seconds: float) -> str:
    """One line about a run."""
    done = counts["schedules"]
    seen = ", ".join(f"{name} {counts[name]}" for name in INTERESTING)
    return f"{done} schedules clean in {seconds:.1f} s ({done / max(seconds, 1e-9):.0f}/s): {seen}"


def main(first: int, count: int, mutation: str | None, minutes: float | None = None, *, adds_up: bool = False) -> int:
    """Run, print, and return the exit code. `adds_up`: play those behind the ones in PLAYED, and add them there."""
    played = Played(PLAYED)
    if adds_up:
        first = played.end
    began, play_part = time.perf_counter(), partial(run_part, mutation=mutation)
    if minutes is None:
        counts, failed = runs.run(play_part, first, count, CHUNK)
    else:
        counts, failed = runs.run_for(play_part, first, minutes, ENOUGH, CHUNK)
    if failed is None and unseen(counts):
        # By chance the rarest is missing once in a thousand runs of 5000, and once in a million of twice as many.
        more, failed = runs.run(play_part, first + counts["schedules"], counts["schedules"], CHUNK)
        counts.update(more)
    print(summary(counts, time.perf_counter() - began))
    if failed is None:
        for name in (missing := unseen(counts)):
            print(f"{counts['schedules']} schedules saw none of: {name}")
        if adds_up and not missing:
            print(f"{played.add(counts['schedules'])} schedules of this tree are clean in all")
        return 1 if missing else 0
    plan = smallest(failed, mutation)
    print(f"seed {failed} fails; what is left after shrinking:\n")
    print(story(plan, mutation)[0])
    return 1
