"""Percentiles, quartiles and slopes of what was measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Spread:
    """The quartiles of many turns: half of the turns lie between `low` and `high`."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of one value or more, interpolated between neighbours."""
        low, middle, high = np.percentile(values, (25, 50, 75)).tolist()
        return cls(middle, low, high)


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least `share` (0..1) of the values do not exceed; nan of no values."""
    found = np.fromiter(values, float)
    return float(np.quantile(found, share, method="inverted_cdf")) if found.size else math.nan


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The rise per unit of the line that fits best; 0 of points that all have one x, or of none."""
    x, y = np.asarray(points, float).reshape(-1, 2).T
    away = x - x.mean() if x.size else x
    spread = float(away @ away)
    return float(away @ y) / spread if spread else 0.0
