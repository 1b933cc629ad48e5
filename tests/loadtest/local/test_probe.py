"""What is read of a node's `/metrics`."""

from __future__ import annotations

import math

import pytest

from framehold_loadtest.local import probe

pytestmark = pytest.mark.load

TEXT = """# HELP framehold_parked_frames Calls that wait for answers here.
# TYPE framehold_parked_frames gauge
framehold_parked_frames 12
framehold_event_loop_lag_seconds_bucket{le="0.0005"} 3
framehold_event_loop_lag_seconds_bucket{le="1.0"} 40
framehold_event_loop_lag_seconds_bucket{le="+Inf"} 41
framehold_event_loop_lag_seconds_sum 1.5
framehold_rounds_total{tool="trip",outcome="parked"} 7
"""


def test_parked_calls_and_loop_lag_are_read() -> None:
    assert probe.metrics(TEXT) == (12, {0.0005: 3.0, 1.0: 40.0, math.inf: 41.0})


def test_a_text_without_them_says_nothing() -> None:
    assert probe.metrics("") == (0, {})


def test_nobody_there_is_status_0() -> None:
    """Port 1 of this machine is nobody's."""
    assert probe.get(1, "/metrics") == (0, "")
    assert probe.on_ring(1) == set()
