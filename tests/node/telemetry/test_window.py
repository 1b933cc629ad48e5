"""Rates of the last minute: by how much a count grew per second."""

from __future__ import annotations

import pytest

from framehold.telemetry.metrics import CallMetrics
from framehold.telemetry.tool_labels import ToolLabels
from framehold.telemetry.window import Rate
from framehold_store import system_clock as clock


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Seconds on the node's clock, and a count, as the test sets them."""
    values = {"now": 1000.0, "count": 5.0}
    monkeypatch.setattr(clock, "now", lambda: values["now"])
    return values


def read(rate: Rate, at: dict[str, float], seconds: float, more: float) -> None:
    at["now"] += seconds
    at["count"] += more
    rate.read()


def test_the_rate_is_of_the_time_between_the_first_and_the_last_reading(at: dict[str, float]) -> None:
    rate = Rate(lambda: at["count"])
    assert rate.per_second() is None
    rate.read()
    assert rate.per_second() is None
    read(rate, at, seconds=10, more=4)
    read(rate, at, seconds=10, more=0)
    assert rate.per_second() == pytest.approx(0.2)


def test_readings_older_than_a_minute_do_not_count(at: dict[str, float]) -> None:
    rate = Rate(lambda: at["count"])
    rate.read()
    read(rate, at, seconds=50, more=50)
    for _ in range(7):
        read(rate, at, seconds=10, more=1)
    assert rate.per_second() == pytest.approx(0.1)


def test_rounds_per_second(at: dict[str, float]) -> None:
    metrics = CallMetrics(ToolLabels(tuple))
    metrics.late(0.0)
    metrics.rounds, at["now"] = 30, at["now"] + 10
    metrics.late(0.0)
    assert metrics.answered_rounds.per_second() == pytest.approx(3.0)
