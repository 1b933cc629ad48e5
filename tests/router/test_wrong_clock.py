"""A wall clock that is wrong is named in the log, once."""

from __future__ import annotations

import pytest

from framehold_core.clock import Clock
from framehold_fleet.members.wrong_clock import LIMIT, WrongClock


@pytest.mark.parametrize(("wrong", "says"), [(LIMIT, "20 s ahead of the store's"), (-90.0, "90 s behind the store's")])
def test_a_wrong_wall_clock_is_told_once_and_so_is_its_end(
    wrong: float, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The line says what goes by it, and what to do."""
    off = [LIMIT - 1.0]
    clock = Clock(lambda: 0.0, lambda: 1000.0 + off[0], bytes)
    clock.measured(1000.0, 0.0, 0.0)
    watch = WrongClock(clock)
    with caplog.at_level("INFO"):
        for off[0] in (LIMIT - 1.0, wrong, wrong, 0.0, 0.0):
            watch.look()
    first, second = caplog.records
    assert first.levelname == "WARNING" and says in first.getMessage() and "NTP" in first.getMessage()
    assert second.levelname == "INFO" and "agrees with the store's again" in second.getMessage()
