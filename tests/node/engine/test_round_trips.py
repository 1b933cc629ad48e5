"""How slow the store is: one that stalls again and again is slow all the time, and says how often."""

from __future__ import annotations

from framehold.engine.round_trips import RoundTrips


def test_a_store_that_stalls_now_and_then_stays_slow_for_a_minute() -> None:
    trips, found = RoundTrips(6.0), []
    for took in (*[0.4] * 5, *[0.01] * 3, 0.45, 0.45, 0.45, *[0.01] * 40):
        trips.add(took)
        found.append((trips.usual, trips.slow))
    # Of the first heartbeats one alone, or a few, hold nothing. A minute has thirty.
    assert found[3:8] == [(0.4, 0), (0.4, 1), (0.4, 2), (0.4, 3), (0.4, 3)]
    assert found[10] == (0.45, 4) and found[12] == (0.45, 6)
    assert found[41] == (0.45, 1) and found[42] == (0.01, 0)
