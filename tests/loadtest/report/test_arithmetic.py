"""The arithmetic of a report, on values small enough to be checked by hand."""

import pytest

from framehold_loadtest.report.arithmetic import Band, Recovery, bands, cumulative, recoveries
from framehold_loadtest.report.data import Fault

pytestmark = pytest.mark.load


def fault(at: float, until: float | None = None) -> Fault:
    return Fault(at=at, what="kill", target="node-1", until=until)


def test_a_distribution_ends_at_the_whole() -> None:
    """Values in order, each with the share of values up to it."""
    assert cumulative([3.0, 1.0, 2.0, 2.0]) == ([1.0, 2.0, 2.0, 3.0], [0.25, 0.5, 0.75, 1.0])


def test_faults_that_overlap_or_touch_are_one_band() -> None:
    """The bands are in order of time, the numbers are those of the table of faults."""
    found = bands([fault(30, 35), fault(10, 15), fault(12, 14), fault(15, 20)])
    assert found == [Band(10, 20, (2, 3, 4)), Band(30, 35, (1,))]


def test_a_fault_without_an_end_is_a_band_without_length() -> None:
    """A kill is an instant."""
    assert bands([fault(7)]) == [Band(7, 7, (1,))]


TIMES = [float(second) for second in range(20)]
STEADY = [100.0] * 20


def dipped(*seconds: int) -> list[float | None]:
    return [10.0 if second in seconds else value for second, value in enumerate(STEADY)]


@pytest.mark.parametrize(
    ("rate", "found"),
    [
        pytest.param(dipped(8, 9, 10), Recovery(4.0, "back"), id="smoothed over three seconds: 12 is good again"),
        pytest.param(dipped(8, 9, 13, 14), Recovery(8.0, "back"), id="two dips are one time to recover"),
        pytest.param(list(STEADY), Recovery(0.0, "no dip"), id="a fault that nobody felt"),
        pytest.param([60.0 if at == 9 else 100.0 for at in range(20)], Recovery(0.0, "no dip"), id="one slow second"),
        pytest.param(
            dipped(*range(8, 20)), Recovery(None, "not back before the next fault, or the end"), id="it stays low"
        ),
        pytest.param(
            [None if at in (8, 9, 10) else 100.0 for at in range(20)],
            Recovery(4.0, "back"),
            id="no sample",
        ),
    ],
)
def test_recovery_counts_from_the_fault_to_the_end_of_its_last_dip(rate: list[float | None], found: Recovery) -> None:
    assert recoveries(TIMES, rate, [fault(8)]) == [found]


def test_each_fault_is_followed_until_the_next() -> None:
    """The second fault's dip isn't the first one's."""
    found = recoveries(TIMES, dipped(8, 14, 15), [fault(8), fault(13)])
    assert [one.seconds for one in found] == [2.0, 4.0]


def test_without_a_rate_before_the_faults_there_is_nothing_to_recover_to() -> None:
    """The reason names what was needed."""
    (found,) = recoveries(TIMES, dipped(2, 3), [fault(2)])
    assert found.seconds is None
    assert found.why == "2 samples before the first fault, 5 are needed"
