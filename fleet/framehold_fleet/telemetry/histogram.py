"""Cheap histograms over a list: every request is measured by a few of them.

The law: one event loop writes and reads. There is no lock, and counting looks up no label.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from prometheus_client.utils import floatToGoString


class Tally:
    """A histogram: how many values fell between these bounds, and their sum. A value equal to a bound counts as below
    it."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Pairs of a bound, as Prometheus writes it, and the number of values that are not above it."""
        names = (*map(floatToGoString, self.bounds), "+Inf")
        return list(zip(names, map(float, accumulate(self.counts)), strict=True))


def quantile(bounds: Sequence[float], counts: Sequence[int], part: float) -> float | None:
    """The value below which `part` of the counted values are; None if nothing was counted. `counts` are as in `Tally`.
    Within a bucket the values are taken as evenly spread; above the last bound they count as the last bound, also in
    buckets for which there is no bound here."""
    wanted, before = part * sum(counts), 0.0
    if not wanted:
        return None
    for index, count in enumerate(counts):
        if count and before + count >= wanted:
            low = bounds[min(index, len(bounds)) - 1] if index else 0.0
            high = bounds[min(index, len(bounds) - 1)]
            return low + (high - low) * (wanted - before) / count
        before += count
    return bounds[-1]
