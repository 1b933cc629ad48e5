"""The clock of a process: it measures the store's clock, and its own wall clock may be wrong and may jump."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framehold_core.clock import DRIFT, Clock


class Machine:
    """A machine whose clocks a test turns. The store's clock is `now` + 5000 seconds."""

    def __init__(self, wrong: float = 0.0) -> None:
        self.at, self.wrong = 100.0, wrong
        self.clock = Clock(lambda: self.at, lambda: self.at + 5000.0 + self.wrong, bytes)

    def ask(self, there: float, back: float, store: float = 5000.0) -> None:
        """Ask the store, whose clock is `store` ahead of `now`; the way there and back takes these seconds."""
        sent, answered = self.at, self.at + there
        self.at = answered + back
        self.clock.measured(answered + store, sent, self.at)

    @property
    def error(self) -> float:
        """How far `time` is from the store's clock."""
        return self.clock.time() - (self.at + 5000.0)


def test_without_a_store_the_wall_clock_counts() -> None:
    machine = Machine()
    machine.at += 7.0
    assert machine.clock.time() == 5107.0
    assert machine.clock.offset == 0.0


@pytest.mark.parametrize("jump", [90.0, -90.0, 1e9])
@pytest.mark.parametrize("measures", [0, 1])
def test_a_wall_clock_that_jumps_moves_no_time(jump: float, measures: int) -> None:
    """Before a measure and after one; the offset shows the jump."""
    machine = Machine()
    for _ in range(measures):
        machine.ask(0.0, 0.0)
    before = machine.clock.time()
    machine.wrong += jump
    assert machine.clock.time() == before
    assert machine.clock.offset == -jump
    machine.wrong -= jump
    assert machine.clock.offset == 0.0


def test_an_old_measure_gives_way_to_a_worse_one() -> None:
    """Clocks drift: after so long a time even a slow answer says more."""
    machine = Machine()
    machine.ask(0.0, 0.0)
    machine.ask(0.0, 0.5)
    assert machine.error == 0.0
    machine.at += 0.25 / DRIFT
    machine.ask(0.0, 0.5)
    assert machine.error == -0.25


@pytest.mark.parametrize("ahead", [30.0, -30.0])
def test_a_fail_over_to_another_clock_starts_the_measure_anew(ahead: float) -> None:
    """The other server's clock contradicts the kept measure, however slow its first answer is."""
    machine = Machine()
    machine.ask(0.0, 0.0)
    machine.ask(0.0, 4.0, 5000.0 + ahead)
    assert machine.error == ahead - 2.0
    machine.ask(0.0, 0.0, 5000.0 + ahead)
    assert machine.error == ahead


ways = st.tuples(st.floats(0, 5), st.floats(0, 5), st.floats(0, 600))


@given(st.floats(-1e6, 1e6), st.lists(ways, min_size=1, max_size=20))
def test_no_time_is_further_off_than_half_the_best_round_trip(
    wrong: float, asked: list[tuple[float, float, float]]
) -> None:
    """Of a store whose clock is steady, whatever the wall clock says."""
    machine, best = Machine(wrong), float("inf")
    for there, back, pause in asked:
        sent = machine.at
        machine.ask(there, back)
        best = min(best + (machine.at - sent) * DRIFT, (there + back) / 2)
        assert abs(machine.error) <= best + 1e-6
        machine.at += pause
        best += pause * DRIFT
