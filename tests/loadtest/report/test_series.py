"""The arithmetic below the checks and the report."""

from __future__ import annotations

import math

import pytest

from framehold_loadtest.notes import Round
from framehold_loadtest.report import series
from framehold_loadtest.report.series import Fault, Sample

pytestmark = pytest.mark.load


def test_an_instant_lies_before_during_or_after_faults() -> None:
    faults = [Fault(10.0, "kill", "n1", 12.0), Fault(20.0, "kill", "n2", 22.0)]
    assert [series.phase(at, faults) for at in (9.0, 10.0, 15.0, 21.0, 30.0)] == [
        "before", "during", "after", "during", "after",
    ]  # fmt: skip


def test_lag_is_read_from_what_was_counted_meanwhile() -> None:
    """What the process counted before the run is no part of it; a restart begins to count anew."""
    first = {0.25: 0.0, 1.0: 50.0, math.inf: 50.0}
    last = {0.25: 100.0, 1.0: 150.0, math.inf: 150.0}
    assert series.worst_lag([Sample(0, lag={"n1": first}), Sample(1, lag={"n1": last})]) == 0.25
    assert series.worst_lag([Sample(0, lag={"n1": last}), Sample(1, lag={"n1": first})]) == 1.0
    assert math.isnan(series.worst_lag([Sample(0)]))


def test_processes_that_waited_for_cores_took_that_much_longer() -> None:
    """A process that was begun anew counts from 0, and one that is new has nothing to count from."""
    first = Sample(0, cpu={"n1": 1.0, "n2": 9.0}, waited={"n1": 5.0, "n2": 9.0})
    last = Sample(1, cpu={"n1": 3.0, "n2": 0.5, "n3": 7.0}, waited={"n1": 8.0, "n2": 0.5, "n3": 7.0})
    assert series.stretch([first, last]) == 2.5
    assert series.stretch([first]) == series.stretch([]) == 1.0


def test_series_have_a_point_a_second_and_none_where_nothing_was() -> None:
    """A second in which nobody looked shows what was seen last."""
    rounds = [
        Round("a", 1, 100.2, 0.1, "n1"),
        Round("a", 2, 100.8, 0.4, "n1", "n1"),
        Round("b", 2, 101.0, 0.5, "n2", "n1"),
        Round("c", 2, 102.0, 0.5, "", "n1", why="503"),
    ]
    samples = [Sample(100.5, {"n1": 2}, {"n1": 7, "r1": 8}), Sample(102.5, {}, {"r1": 9})]
    found = series.drawn(rounds, samples, 100.0, 3.0)
    assert (found.t, found.rate) == ([0, 1, 2], [1, 2, 0])
    assert (found.p50, found.p99) == ([100.0, 400.0, None], [100.0, 500.0, None])
    assert found.rss == {"n1": [7, 7, None], "r1": [8, 8, 9]}
