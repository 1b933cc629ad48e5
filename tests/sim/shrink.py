"""Take a failing schedule apart until every decision left in it matters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, TypeVar


class Schedule(Protocol):
    def without(self, group: str, at: int, size: int) -> Self:
        """This schedule without `size` decisions of a group, from the one at `at` on."""


ScheduleT = TypeVar("ScheduleT", bound=Schedule)
GROUPS = ("faults", "mischief", "acts", "clients")


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
