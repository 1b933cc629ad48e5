"""How long a client still waited after a fault: arithmetic over rounds."""

from __future__ import annotations

import pytest

from framehold_loadtest.tradeoff.metrics import recovery
from framehold_loadtest.tradeoff.record import Turn

pytestmark = pytest.mark.load


def turn(begun: float, ended: float, *, refused: int = 0, answered: bool = True, number: int = 2) -> Turn:
    return Turn(number, ended, ended - begun, 600, 400, 0, answered, refused)


QUICK = [turn(at / 10, at / 10 + 0.02) for at in range(200)]


def test_a_fault_lasts_until_the_last_client_that_waited_for_it_was_answered() -> None:
    """Also where most of the others were served at once: a rate would not show it."""
    held = [turn(10.1, 11.0, refused=2), turn(10.3, 14.9, refused=5), turn(10.4, 11.2)]
    assert recovery([*QUICK, *held], [10.0]) == 14.9 - 10.0


def test_a_fault_that_no_client_felt_takes_no_time() -> None:
    assert recovery(QUICK, [10.0]) == 0.0


def test_a_round_that_was_in_progress_belongs_to_the_fault() -> None:
    """It began before it, and its node died."""
    assert recovery([turn(9.9, 12.0)], [10.0]) == 2.0


def test_what_was_late_before_the_first_fault_is_not_its_doing() -> None:
    assert recovery([turn(1.0, 4.0, refused=3)], [10.0]) == 0.0


def test_of_several_faults_the_longest_counts() -> None:
    """Each late round belongs to the fault that happened while it was tried, or to the one before."""
    late = [turn(10.1, 10.9, refused=1), turn(19.5, 22.5), turn(23.0, 24.0, refused=2)]
    assert recovery(late, [10.0, 20.0]) == 4.0


def test_a_call_that_could_not_be_begun_was_waited_for_and_a_lost_one_is_over() -> None:
    refused, lost = turn(10.2, 10.3, answered=False, number=1), turn(10.2, 40.0, answered=False)
    assert round(float(recovery([refused, lost], [10.0])), 3) == 0.3


def test_without_a_fault_there_is_nothing_to_recover_from() -> None:
    assert recovery(QUICK, []) == "nothing to recover from"
