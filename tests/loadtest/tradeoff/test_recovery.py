"""How long until rounds succeed again: arithmetic over instants."""

from __future__ import annotations

import pytest

from framehold_loadtest.tradeoff import recovery


def every(step: float, *spans: tuple[float, float]) -> list[float]:
    """An answer at each step of each span."""
    return [start + step * number for start, stop in spans for number in range(round((stop - start) / step))]


def test_a_gap_lasts_until_the_first_window_that_is_full_again() -> None:
    """Nothing is answered from 10 s to 12 s; a window of 1 s is nine tenths full from 11.9 s on."""
    found = recovery.seconds(every(0.01, (0, 10), (12, 20)), [10.0], (0.0, 20.0), 1.0)
    assert found == pytest.approx(1.9, abs=0.11)


def test_a_fault_that_does_not_show_costs_nothing() -> None:
    assert recovery.seconds(every(0.01, (0, 20)), [10.0], (0.0, 20.0), 1.0) == 0.0


def test_a_slow_second_long_after_the_fault_is_not_its_doing() -> None:
    assert recovery.seconds(every(0.01, (0, 15), (16, 20)), [10.0], (0.0, 20.0), 1.0) == 0.0


def test_a_dip_within_a_window_of_the_fault_is() -> None:
    found = recovery.seconds(every(0.01, (0, 10.5), (13, 20)), [10.0], (0.0, 20.0), 1.0)
    assert found == pytest.approx(2.9, abs=0.11)


def test_of_several_faults_the_longest_counts() -> None:
    found = recovery.seconds(every(0.01, (0, 10), (11, 20), (23, 30)), [10.0, 20.0], (0.0, 30.0), 1.0)
    assert found == pytest.approx(2.9, abs=0.11)


def test_the_rate_to_come_back_to_is_that_before_the_first_fault() -> None:
    """Half of it is not enough, though it was the rate before the second."""
    halved = every(0.01, (0, 10)) + every(0.02, (10, 30))
    assert "not within the 20.0 s" in str(recovery.seconds(halved, [10.0, 20.0], (0.0, 30.0), 1.0))


@pytest.mark.parametrize(
    ("answered", "faults", "why"),
    [
        (every(0.01, (0, 20)), [], "nothing to recover from"),
        (every(1.0, (0, 20)), [10.0], "10 rounds were answered before the fault, 20 are needed"),
        (every(0.01, (0, 10)), [10.0], "not within the 10.0 s that were watched"),
    ],
)
def test_what_cannot_be_told_says_why(answered: list[float], faults: list[float], why: str) -> None:
    assert why in str(recovery.seconds(answered, faults, (0.0, 20.0), 1.0))
