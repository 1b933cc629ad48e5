"""Take a failing schedule apart until every decision left in it matters."""

from __future__ import annotations

from collections.abc import Callable

from .plan import Plan

Fails = Callable[[Plan], bool]
GROUPS = ("faults", "mischief", "acts", "clients")


def shrink(plan: Plan, fails: Fails, budget: int = 400) -> Plan:
    """The smallest plan found that still fails, by leaving out ever smaller runs of decisions.

    Args:
        plan: a plan that fails.
        fails: whether a plan fails in the same way.
        budget: how many plans may be played.
    """
    smaller = True
    while smaller and budget > 0:
        smaller = False
        for group in GROUPS:
            size = max(1, len(getattr(plan, group)) // 2)
            while size:
                plan, played, found = _pass(plan, group, size, fails)
                budget -= played
                smaller = smaller or found
                size //= 2
    return plan


def _pass(plan: Plan, group: str, size: int, fails: Fails) -> tuple[Plan, int, bool]:
    """Try to leave out each run of `size` decisions of a group: the plan, how many were played, whether it shrank."""
    at, played, found = 0, 0, False
    while at < len(getattr(plan, group)):
        candidate = plan.without(group, at, size)
        played += 1
        if (group != "clients" or candidate.clients) and fails(candidate):
            plan, found = candidate, True
        else:
            at += size
    return plan, played, found
