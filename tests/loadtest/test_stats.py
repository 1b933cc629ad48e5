"""Percentiles, quartiles and slopes."""

from __future__ import annotations

import math

import pytest

from framehold_loadtest.stats import Spread, percentile, slope

pytestmark = pytest.mark.load


@pytest.mark.parametrize(("share", "value"), [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (0.0, 1.0)])
def test_a_percentile_is_a_value_that_was_seen(share: float, value: float) -> None:
    assert percentile(map(float, range(100, 0, -1)), share) == value


def test_a_percentile_of_few_values_is_one_of_them() -> None:
    assert (percentile([3, 1, 2], 0.5), percentile([1], 0.99)) == (2, 1)


def test_nothing_has_no_percentile() -> None:
    assert math.isnan(percentile([], 0.99))


def test_a_slope_is_that_of_the_best_line() -> None:
    assert slope([(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]) == pytest.approx(2.0)
    assert slope([(0.0, 1.0), (1.0, 4.0), (2.0, 1.0)]) == pytest.approx(0.0)
    assert slope([(5.0, 1.0)]) == slope([]) == 0.0


def test_a_spread_is_the_quartiles() -> None:
    assert Spread.of([1.0, 2.0, 3.0, 4.0, 5.0]) == Spread(3.0, 2.0, 4.0)
    assert Spread.of([1.0, 2.0]) == Spread(1.5, 1.25, 1.75)
