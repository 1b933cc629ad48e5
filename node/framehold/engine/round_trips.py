"""How slow the store is, by a node's own heartbeats."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable

from framehold_core.lease import longest_round_trip
from framehold_router.verdict.seen import NEARLY_SLOW
from framehold_store.config import OP_TIMEOUT

_KEPT = 5
HELD = 60.0
"""Seconds for which a slow store counts as slow: one that stalls again and again is one trouble, and not many."""


class RoundTrips:
    """What the last heartbeats of a node took at the store, the wait for writes before them included. `longest` is the
    longest round trip with which a node works whose lease lasts for `ttl`. All in seconds."""

    def __init__(self, ttl: float, now: Callable[[], float] = time.monotonic) -> None:
        self.longest = longest_round_trip(ttl, OP_TIMEOUT)
        self._now = now
        self._last: deque[float] = deque(maxlen=_KEPT)
        self._slow: deque[tuple[float, float]] = deque()
        """When the median of five was `NEARLY_SLOW` or more of the longest, and what it was."""

    def add(self, seconds: float) -> None:
        """Take in a heartbeat that the store answered."""
        self._last.append(seconds)
        median = statistics.median(self._last)
        if len(self._last) == _KEPT and median >= NEARLY_SLOW * self.longest:
            self._slow.append((self._now(), median))

    @property
    def slow(self) -> int:
        """With how many heartbeats of the last minute the store was nearly too slow, or too slow."""
        while self._slow and self._slow[0][0] < self._now() - HELD:
            self._slow.popleft()
        return len(self._slow)

    @property
    def usual(self) -> float | None:
        """The median of the last five, so that one slow heartbeat, or a fast one between slow ones, says nothing; the
        highest of the last minute where the store was slow in it. None before the first heartbeat."""
        if self.slow:
            return round(max(median for _, median in self._slow), 4)
        return round(statistics.median(self._last), 4) if self._last else None
