"""How long a client still waited after a fault: arithmetic over rounds."""

from __future__ import annotations

import pytest

from framehold_loadtest.tradeoff.metrics import recovery
from framehold_loadtest.tradeoff.record import Turn

pytestmark = pytest.mark.load


def turn(begun: float, ended: float, *, refused: int = 0, answered: bool = True, number: int = 2) -> Turn:
    return Turn(number, ended, ended - begun, 600, 400, 0, answered, refused)


QUICK = [turn(at / 10, at / 10 + 0.02) for at in range(200)]


@pytest.mark.parametrize(
    ("rounds", "faults", "seconds"),
    [
        pytest.param([turn(10.1, 11.0, refused=2), turn(10.3, 14.9, refused=5)], [10.0], 4.9, id="the last one"),
        pytest.param([], [10.0], 0.0, id="no client felt it"),
        pytest.param([turn(9.9, 12.0)], [10.0], 2.0, id="a round in progress belongs to the fault"),
        pytest.param([turn(1.0, 4.0, refused=3)], [10.0], 0.0, id="late before the first fault"),
        pytest.param(
            [turn(10.1, 10.9, refused=1), turn(19.5, 22.5), turn(23.0, 24.0, refused=2)],
            [10.0, 20.0],
            4.0,
            id="of several faults the longest",
        ),
        pytest.param(
            [turn(10.2, 10.3, answered=False, number=1), turn(10.2, 40.0, answered=False)],
            [10.0],
            0.3,
            id="a call that could not be begun was waited for, a lost one is over",
        ),
    ],
)
def test_a_fault_lasts_until_the_last_client_that_waited_for_it_was_answered(
    rounds: list[Turn], faults: list[float], seconds: float
) -> None:
    """Also where most of the others were served at once: a rate would not show it."""
    assert recovery([*QUICK, *rounds], faults) == pytest.approx(seconds)


def test_without_a_fault_there_is_nothing_to_recover_from() -> None:
    assert recovery(QUICK, []) == "nothing to recover from"
