"""A cell from its turns: medians, sums, shares, and what a busy machine leaves of it."""

from __future__ import annotations

import pytest

from framehold_loadtest.report.data import NOT_MEASURED, Measured, Missing
from framehold_loadtest.tradeoff.metrics import Turned, merged

pytestmark = pytest.mark.load


def turn(cpu: float, lost: tuple[float, float] = (0, 10), busy: str = "") -> Turned:
    metrics: dict[str, Measured | Missing] = {
        "cpu_us_node": Measured(value=cpu, unit="us"),
        "calls_hit_lost": Measured(value=lost[0], unit="calls"),
        "calls_hit_lost_of": Measured(value=lost[1], unit="calls"),
    }
    return Turned(metrics, busy)


def test_what_is_measured_has_its_median_and_each_turn() -> None:
    found = merged([turn(5), turn(1), turn(3)])
    assert found["cpu_us_node"] == Measured(value=3, unit="us", turns=[5, 1, 3])


def test_a_share_is_of_those_who_could_be_hit_in_all_turns() -> None:
    """With its counts beside it; the counts themselves are no rows of their own."""
    found = merged([turn(1, (3, 10)), turn(1, (0, 14)), turn(1, (3, 6))])
    assert found["lost_share"] == Measured(value=20, unit="%", beside="6 of 30 calls")
    assert [name for name in found if name.startswith("calls_hit")] == []


def test_where_nobody_could_be_hit_there_is_no_share() -> None:
    assert merged([turn(1, (0, 0))])["lost_share"] == Missing(missing="no call was open that could be hit")


def test_a_busy_turn_is_left_out() -> None:
    assert merged([turn(5), turn(900, busy="others"), turn(3)])["cpu_us_node"] == Measured(
        value=4, unit="us", turns=[5, 3]
    )


def test_a_cell_whose_turns_were_busy_is_not_measured() -> None:
    """Not even what was counted: calls may have been lost to the other programs."""
    found = merged([turn(5), turn(9, busy="1.5 cores"), turn(9, busy="1.4 cores")])
    assert set(found.values()) == {Missing(missing=f"{NOT_MEASURED}, in 2 of 3 turns: 1.5 cores")}


def test_a_turn_that_could_not_be_run_does_not_hide_the_others() -> None:
    """Unless it is most of them."""
    gap = Turned({"cpu_us_node": Missing(missing="install haproxy")})
    assert merged([turn(5), gap, turn(3)])["cpu_us_node"] == Measured(value=4, unit="us", turns=[5, 3])
    assert merged([turn(5), gap, gap])["cpu_us_node"] == Missing(missing="install haproxy")
