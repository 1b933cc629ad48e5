"""How slow the store is, by a node's own heartbeats."""

from __future__ import annotations

import statistics
from collections import deque

from framehold_core.lease import longest_round_trip
from framehold_fleet.members.store_health import NEARLY_SLOW
from framehold_store.config import OP_TIMEOUT

_KEPT = 5
HELD = 60.0
"""Seconds for which a slow store counts as slow: one that stalls again and again is one trouble, and not many."""


class RoundTrips:
    """What the last heartbeats of a node took at the store, the wait for writes before them included. `longest` is the
    longest round trip with which a node works whose lease lasts for `ttl`. All in seconds. A heartbeat that the store
    answers comes every third of `ttl`: so many of them make a minute."""

    def __init__(self, ttl: float) -> None:
        self.longest = longest_round_trip(ttl, OP_TIMEOUT)
        self._last: deque[float] = deque(maxlen=_KEPT)
        self._medians: deque[float] = deque(maxlen=max(1, round(HELD / (ttl / 3))))
        """Those of five heartbeats each."""

    def add(self, seconds: float) -> None:
        """Take in a heartbeat that the store answered."""
        self._last.append(seconds)
        if len(self._last) == _KEPT:
            self._medians.append(statistics.median(self._last))

    @property
    def slow(self) -> int:
        """With how many heartbeats of the last minute the store was nearly too slow, or too slow."""
        return sum(median >= NEARLY_SLOW * self.longest for median in self._medians)

    @property
    def usual(self) -> float | None:
        """The median of the last five, so that one slow heartbeat, or a fast one between slow ones, says nothing; the
        highest of the last minute where the store was slow in it. None before the first heartbeat."""
        if not self._last:
            return None
        return round(max(self._medians) if self.slow else statistics.median(self._last), 4)
