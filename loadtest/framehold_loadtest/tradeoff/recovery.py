"""How long after a fault rounds succeed as often as before it. Pure.

The rate is the number of answered rounds in a window. The rate before the first fault is the one to be reached again. A
fault took 0 seconds if no window that begins within one window's length of it has a lower rate.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

AGAIN = 0.9
"""The share of the rate before that counts as recovered."""
FEWEST = 20
"""Rounds before the first fault without which there is no rate to come back to."""
_STEPS = 10


def seconds(
    answered: Sequence[float], faults: Sequence[float], span: tuple[float, float], window: float
) -> float | str:
    """The longest time to recover of all faults, in seconds, or why there is none.

    `answered` are the instants of answers, `span` is when the load began and ended.
    """
    if not faults:
        return "nothing to recover from"
    began, ended = span
    instants = sorted(answered)
    before = bisect.bisect_left(instants, faults[0]) - bisect.bisect_left(instants, began)
    if before < FEWEST:
        return f"{before} rounds were answered before the fault, {FEWEST} are needed to tell a rate"
    wanted = AGAIN * before / (faults[0] - began) * window
    found = [_recovered(instants, fault, ended - window, window, wanted) for fault in faults]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return f"not within the {ended - faults[found.index(None)]:.1f} s that were watched"
    return max(known)


def _recovered(instants: Sequence[float], fault: float, last: float, window: float, wanted: float) -> float | None:
    """Seconds from the fault to the first window that is full again, after one that was not."""
    at, dipped = fault, False
    while at <= last:
        full = bisect.bisect_left(instants, at + window) - bisect.bisect_left(instants, at) >= wanted
        if full and (dipped or at > fault + window):
            return at - fault if dipped else 0.0
        dipped = dipped or not full
        at += window / _STEPS
    return None if dipped else 0.0
