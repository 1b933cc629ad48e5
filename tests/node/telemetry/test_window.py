"""How busy the event loop was in the last minute."""

from __future__ import annotations

import time

import pytest

from framehold import clock
from framehold.telemetry.window import BusyShare


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Seconds on the node's clock, and of processor time, as the test sets them."""
    at = {"now": 1000.0, "used": 5.0}
    monkeypatch.setattr(clock, "now", lambda: at["now"])
    monkeypatch.setattr(time, "thread_time", lambda: at["used"])
    return at


def read(busy: BusyShare, times: dict[str, float], seconds: float, used: float) -> None:
    times["now"] += seconds
    times["used"] += used
    busy.read()


def test_the_share_is_of_the_time_between_the_first_and_the_last_reading(times: dict[str, float]) -> None:
    busy = BusyShare()
    assert busy.share() is None
    busy.read()
    assert busy.share() is None
    read(busy, times, seconds=10, used=4)
    read(busy, times, seconds=10, used=0)
    assert busy.share() == pytest.approx(0.2)


def test_readings_older_than_a_minute_do_not_count(times: dict[str, float]) -> None:
    busy = BusyShare()
    busy.read()
    read(busy, times, seconds=50, used=50)
    for _ in range(7):
        read(busy, times, seconds=10, used=1)
    assert busy.share() == pytest.approx(0.1)


def test_a_loop_that_computes_is_busy() -> None:
    """With the real clocks: a spin uses the processor, whatever else the machine does."""
    busy = BusyShare()
    busy.read()
    until = time.thread_time() + 0.02
    while time.thread_time() < until:
        pass
    busy.read()
    share = busy.share()
    assert share is not None and 0 < share <= 1
