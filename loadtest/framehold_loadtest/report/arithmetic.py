"""The arithmetic of a report: distributions, bands of faults and times to recover. All of it is pure.

Law: what can't be computed is None, never 0; the caller says why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from framehold_loadtest.report.data import Fault, Sampled

LEVEL = 0.8
"""The share of the rate before the faults under which the rate counts as dipped."""

SMOOTHED = 3
"""Samples over which the rate is averaged before it is judged, so that one slow second is no dip."""

FEWEST_BEFORE = 5
"""Samples that must precede the first fault before there is a rate to come back to."""


def cumulative(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """The points of the values' distribution: each value, and the share of values up to it."""
    ordered = sorted(values)
    return ordered, [rank / len(ordered) for rank in range(1, len(ordered) + 1)]


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of the run in which faults lasted, with the numbers (from 1) of those faults."""

    start: float
    stop: float
    faults: tuple[int, ...]


def bands(faults: Sequence[Fault]) -> list[Band]:
    """The stretches in which at least one fault lasted, in order; those that overlap or touch are one.

    A fault without an end is a stretch without length.
    """
    joined: list[Band] = []
    for number, fault in sorted(enumerate(faults, 1), key=lambda numbered: numbered[1].at):
        stop = fault.at if fault.until is None else fault.until
        last = joined[-1] if joined else None
        if last is not None and fault.at <= last.stop:
            joined[-1] = Band(last.start, max(last.stop, stop), (*last.faults, number))
        else:
            joined.append(Band(fault.at, stop, (number,)))
    return joined


@dataclass(frozen=True, slots=True)
class Recovery:
    """How long after a fault the rate was back, in seconds, 0 if it never dipped; None, and why, if that is unknown."""

    seconds: float | None
    why: str


def recoveries(times: Sequence[float], rate: Sampled, faults: Sequence[Fault]) -> list[Recovery]:
    """For each fault, from its beginning to the first moment from which the rate stayed at `LEVEL` of what it was.

    What it was is its median before the first fault. A fault is followed until the next one begins, or to the end.
    """
    first = min((fault.at for fault in faults), default=0.0)
    before = [value for time, value in zip(times, rate, strict=True) if time < first and value is not None]
    if len(before) < FEWEST_BEFORE:
        why = f"{len(before)} samples before the first fault, {FEWEST_BEFORE} are needed"
        return [Recovery(None, why) for _ in faults]
    level = LEVEL * median(before)
    smooth = _smoothed(rate)
    begins = sorted({fault.at for fault in faults})
    until = dict(pairwise([*begins, math.inf]))
    return [
        _recovery([(t, v) for t, v in zip(times, smooth, strict=True) if fault.at <= t < until[fault.at]], fault, level)
        for fault in faults
    ]


def _recovery(samples: Sequence[tuple[float, float]], fault: Fault, level: float) -> Recovery:
    if not samples:
        return Recovery(None, "no sample between it and the next fault, or the end")
    low = [time for time, value in samples if value < level]
    if not low:
        return Recovery(0.0, "no dip")
    back = next((time for time, _ in samples if time > low[-1]), None)
    if back is None:
        return Recovery(None, "not back before the next fault, or the end")
    return Recovery(back - fault.at, "back")


def _smoothed(rate: Sampled) -> list[float]:
    """The mean of each sample and its neighbours; a second without a sample completed nothing."""
    known = [value or 0.0 for value in rate]
    reach = SMOOTHED // 2
    return [fmean(known[max(0, place - reach) : place + reach + 1]) for place in range(len(known))]
