"""Play many schedules on all cores, and take a failing one apart until every decision left in it matters."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, TypeVar

Part = tuple[Counter[str], int | None]
"""Some schedules in a row: the counts, and the seed that failed."""
Play = Callable[[int, int], Part]
"""Plays so many schedules from a seed on, until one fails."""


def run(play: Play, first: int, runs: int, chunk: int) -> Part:
    """Play schedules of the seeds from `first` on, `chunk` of them in a process, until one fails."""
    chunks = [(at, min(chunk, first + runs - at)) for at in range(first, first + runs, chunk)]
    counts: Counter[str] = Counter()
    # Each process begins with what this one has: what is broken on purpose, and what was imported with a change.
    with multiprocessing.get_context("fork").Pool(min(len(chunks), os.cpu_count() or 1), maxtasksperchild=1) as pool:
        for future in [pool.apply_async(play, item) for item in chunks]:
            part, failed = future.get()
            counts.update(part)
            if failed is not None:
                return counts, failed
    return counts, None


def run_for(play: Play, first: int, minutes: float, enough: int, chunk: int) -> Part:
    """The same, `enough` of them at a time, until the minutes are over."""
    counts: Counter[str] = Counter()
    end = time.monotonic() + 60 * minutes
    while True:
        part, failed = run(play, first + counts["schedules"], enough, chunk)
        counts.update(part)
        if failed is not None or time.monotonic() > end:
            return counts, failed


class Schedule(Protocol):
    def without(self, group: str, at: int, size: int) -> Self:
        """This schedule without `size` decisions of a group, from the one at `at` on."""


ScheduleT = TypeVar("ScheduleT", bound=Schedule)
GROUPS = ("faults", "mischief", "acts", "clients")


def smallest(plan: ScheduleT, broken: Callable[[ScheduleT], str], groups: Sequence[str] = GROUPS) -> ScheduleT:
    """A failing plan, shrunk to what still breaks the same invariant."""
    name = broken(plan)
    return shrink(plan, lambda candidate: name != "" and broken(candidate) == name, groups=groups)


def shrink(
    plan: ScheduleT, fails: Callable[[ScheduleT], bool], budget: int = 400, groups: Sequence[str] = GROUPS
) -> ScheduleT:
    """The smallest plan found that still fails, by leaving out ever smaller runs of decisions.

    Args:
        plan: a plan that fails.
        fails: whether a plan fails in the same way.
        budget: how many plans may be played.
        groups: the names of the groups of decisions. Of the last one some decision must be left.
    """
    smaller = True
    while smaller and budget > 0:
        smaller = False
        for group in groups:
            size = max(1, len(_decisions(plan, group)) // 2)
            while size:
                plan, played, found = _pass(plan, group, size, fails, group == groups[-1])
                budget -= played
                smaller = smaller or found
                size //= 2
    return plan


def _pass(
    plan: ScheduleT, group: str, size: int, fails: Callable[[ScheduleT], bool], needed: bool
) -> tuple[ScheduleT, int, bool]:
    """Try to leave out each run of `size` decisions of a group: the plan, how many were played, whether it shrank."""
    at, played, found = 0, 0, False
    while at < len(_decisions(plan, group)):
        candidate = plan.without(group, at, size)
        played += 1
        if (_decisions(candidate, group) or not needed) and fails(candidate):
            plan, found = candidate, True
        else:
            at += size
    return plan, played, found


def _decisions(plan: Schedule, group: str) -> Sequence[Any]:
    found: Sequence[Any] = getattr(plan, group)
    return found
