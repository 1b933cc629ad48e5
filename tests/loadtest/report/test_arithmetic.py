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


def test_recovery_counts_from_the_fault_to_the_end_of_its_last_dip() -> None:
    """The rate is smoothed over three seconds: the dip of 8 to 10 pulls 7 and 11 down, so 12 is the first good one."""
    assert recoveries(TIMES, dipped(8, 9, 10), [fault(8)]) == [Recovery(4.0, "back")]


def test_a_rate_that_falls_back_has_not_recovered_at_its_first_good_second() -> None:
    """Two dips after one fault are one time to recover."""
    assert recoveries(TIMES, dipped(8, 9, 13, 14), [fault(8)]) == [Recovery(8.0, "back")]


def test_a_fault_that_nobody_felt_took_no_time() -> None:
    """A rate that never left its level recovers in 0 s, and the page says that there was no dip."""
    assert recoveries(TIMES, list(STEADY), [fault(8)]) == [Recovery(0.0, "no dip")]


def test_one_slow_second_is_no_dip() -> None:
    """Else the noise of a low rate would look like a fault's effect."""
    rate: list[float | None] = [60.0 if second == 9 else 100.0 for second in range(20)]
    assert recoveries(TIMES, rate, [fault(8)])[0].seconds == 0


def test_a_rate_that_stays_low_has_no_time_to_recover() -> None:
    """An end of the run is no recovery."""
    assert recoveries(TIMES, dipped(*range(8, 20)), [fault(8)])[0].seconds is None


def test_a_second_without_a_sample_is_a_second_without_completions() -> None:
    """A fleet that answers nothing has not recovered."""
    rate: list[float | None] = [None if second in (8, 9, 10) else 100.0 for second in range(20)]
    assert recoveries(TIMES, rate, [fault(8)])[0].seconds == 4.0


def test_each_fault_is_followed_until_the_next() -> None:
    """The second fault's dip isn't the first one's."""
    found = recoveries(TIMES, dipped(8, 14, 15), [fault(8), fault(13)])
    assert [one.seconds for one in found] == [2.0, 4.0]


def test_without_a_rate_before_the_faults_there_is_nothing_to_recover_to() -> None:
    """The reason names what was needed."""
    (found,) = recoveries(TIMES, dipped(2, 3), [fault(2)])
    assert found.seconds is None
    assert found.why == "2 samples before the first fault, 5 are needed"
