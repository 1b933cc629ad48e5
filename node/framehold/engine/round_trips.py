"""How slow the store is, by a node's own heartbeats."""

from __future__ import annotations

import statistics
from collections import deque

from framehold_core.lease import longest_round_trip
from framehold_store.config import OP_TIMEOUT

_KEPT = 5


class RoundTrips:
    """What the last heartbeats of a node took at the store, the wait for writes before them included. `longest` is the
    longest round trip with which a node works whose lease lasts for `ttl`. All in seconds."""

    def __init__(self, ttl: float) -> None:
        self.longest = longest_round_trip(ttl, OP_TIMEOUT)
        self._last: deque[float] = deque(maxlen=_KEPT)

    def add(self, seconds: float) -> None:
        """Take in a heartbeat that the store answered."""
        self._last.append(seconds)

    @property
    def usual(self) -> float | None:
        """Their median, so that one slow heartbeat, or a fast one between slow ones, says nothing; None before the
        first."""
        return round(statistics.median(self._last), 4) if self._last else None
