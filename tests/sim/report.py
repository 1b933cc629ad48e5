"""Run many schedules over the cores, sum up what happened in them, and tell the story of the first that fails."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterator

from .adversary import ACTS
from .mutations import mutated
from .plan import Plan, draw
from .shrink import shrink
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

CHUNK = 200

Part = tuple[Counter[str], int | None]


def run_part(first: int, runs: int, mutation: str | None) -> Part:
    """Some schedules in a row: the counts, and the seed that failed."""
    counts: Counter[str] = Counter()
    with mutated(mutation):
        for seed in range(first, first + runs):
            world, violation = play(draw(seed))
            counts.update(world.counts)
            if violation is not None:
                return counts, seed
    return counts, None


def _parts(first: int, runs: int, mutation: str | None) -> Iterator[Part]:
    work = [(at, min(CHUNK, first + runs - at), mutation) for at in range(first, first + runs, CHUNK)]
    cores = min(len(work), os.cpu_count() or 1)
    if cores < 2:
        yield from (run_part(*item) for item in work)
        return
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        futures = [pool.apply_async(run_part, item) for item in work]
        yield from (future.get() for future in futures)


def run(first: int, runs: int, mutation: str | None = None) -> tuple[Counter[str], int | None]:
    """Schedules of seeds `first` and up, until one fails: the counts, and its seed."""
    counts: Counter[str] = Counter()
    for part, failed in _parts(first, runs, mutation):
        counts.update(part)
        if failed is not None:
            return counts, failed
    return counts, None


def run_for(first: int, minutes: float, mutation: str | None = None) -> tuple[Counter[str], int | None]:
    """As `run`, until the time is over."""
    counts: Counter[str] = Counter()
    end = time.monotonic() + 60 * minutes
    while True:
        part, failed = run(first + counts["schedules"], ENOUGH, mutation)
        counts.update(part)
        if failed is not None or time.monotonic() > end:
            return counts, failed


def unseen(counts: Counter[str]) -> list[str]:
    """What a long run has not seen; nothing if the run is too short to tell."""
    return [name for name in INTERESTING if not counts[name]] if counts["schedules"] >= ENOUGH else []


def smallest(seed: int, mutation: str | None = None) -> Plan:
    """The plan of a failing seed, shrunk to what still breaks the same invariant."""
    plan = draw(seed)
    with mutated(mutation):
        name = _broken(plan)
        return shrink(plan, lambda candidate: name is not None and _broken(candidate) == name)


def _broken(plan: Plan) -> str | None:
    violation = play(plan)[1]
    return str(violation).split(":")[0] if violation else None


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


def main(first: int, runs: int, mutation: str | None, minutes: float | None = None) -> int:
    """Run, print, and return the exit code."""
    began = time.perf_counter()
    counts, failed = run(first, runs, mutation) if minutes is None else run_for(first, minutes, mutation)
    if failed is None and unseen(counts):
        # By chance the rarest is missing once in a thousand runs of 5000, and once in a million of twice as many.
        more, failed = run(first + counts["schedules"], counts["schedules"], mutation)
        counts.update(more)
    print(summary(counts, time.perf_counter() - began))
    if failed is None:
        for name in (missing := unseen(counts)):
            print(f"{counts['schedules']} schedules saw none of: {name}")
        return 1 if missing else 0
    plan = smallest(failed, mutation)
    print(f"seed {failed} fails; what is left after shrinking:\n")
    print(story(plan, mutation)[0])
    return 1
