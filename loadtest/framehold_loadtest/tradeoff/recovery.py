"""How long after a fault a client still waited because of it. Pure.

A round is late if it was refused before it was answered, if it took `LATE` seconds or more, or if the call could not be
begun. A late round belongs to the first fault that happened while it was tried, or else to the last one before it. A
fault took until the end of its last late round. A call that was lost is no part of it: its client waits for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from framehold_loadtest.tradeoff.record import Turn

LATE = 0.5
"""Seconds. Undisturbed, on a machine that does nothing else, 99 of 100 rounds take less than a fifth of it."""


def seconds(turns: Iterable[Turn], faults: Sequence[float]) -> float | str:
    """The longest time to recover of all faults, in seconds, or why there is none."""
    if not faults:
        return "nothing to recover from"
    late = [turn for turn in turns if _late(turn)]
    return max((turn.at - at for turn in late if (at := _cause(turn, faults)) is not None), default=0.0)


def _late(turn: Turn) -> bool:
    if not turn.answered:
        return turn.round == 1
    return turn.refused > 0 or turn.seconds >= LATE


def _cause(turn: Turn, faults: Sequence[float]) -> float | None:
    begun = turn.at - turn.seconds
    during = [at for at in faults if begun <= at <= turn.at]
    before = [at for at in faults if at < begun]
    return during[0] if during else before[-1] if before else None
