"""Durations and rates of the last minute, and ends of the last ten, for the status of a node.

The law: their number is bounded. Under load the newest durations represent the whole minute.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from framehold_store import system_clock

WINDOW_SECONDS = 60.0
"""Durations of this many seconds back count."""
MAX_DURATIONS = 2048
"""How many durations are kept."""


END_MINUTES, ROUND_MINUTES = 10, 5
"""The ends of calls, and those of rounds, of this many minutes count, the present one included."""


class RecentEnds:
    """How many calls (or rounds) ended in the last `minutes`, and how many of them failed (or were left). `ended` and
    `failed` are those since the start."""

    __slots__ = ("_minutes", "_span", "ended", "failed")

    def __init__(self, minutes: int = END_MINUTES) -> None:
        self._span = minutes
        self.ended = self.failed = 0
        self._minutes: deque[list[int]] = deque(maxlen=minutes)
        """Minutes on the node's clock, each with its ends and failures. Minutes without an end are left out."""

    def add(self, failed: bool) -> None:
        """Count a call that ends now."""
        minute = int(system_clock.now() // 60)
        if not self._minutes or self._minutes[-1][0] != minute:
            self._minutes.append([minute, 0, 0])
        latest = self._minutes[-1]
        latest[1] += 1
        latest[2] += failed
        self.ended += 1
        self.failed += failed

    def counts(self) -> tuple[int, int]:
        """The ends, and how many of them failed."""
        since = int(system_clock.now() // 60) - self._span
        recent = [item for item in self._minutes if item[0] > since]
        return sum(item[1] for item in recent), sum(item[2] for item in recent)


class RecentDurations:
    """The newest durations, in seconds."""

    __slots__ = ("_durations",)

    def __init__(self) -> None:
        self._durations: deque[tuple[float, float]] = deque(maxlen=MAX_DURATIONS)

    def add(self, seconds: float) -> None:
        """Add a duration that has ended now."""
        self._durations.append((system_clock.now(), seconds))

    def quantile(self, part: float) -> float | None:
        """The duration that this part (0 to 1) of the durations does not exceed; None if there was none in the last
        minute."""
        since = system_clock.now() - WINDOW_SECONDS
        recent = sorted(seconds for at, seconds in self._durations if at >= since)
        return recent[min(len(recent) - 1, int(part * len(recent)))] if recent else None


class Rate:
    """By how much a count grew per second in the last minute. `count` gives its present value."""

    __slots__ = ("_count", "_readings")

    def __init__(self, count: Callable[[], float]) -> None:
        self._count = count
        self._readings: deque[tuple[float, float]] = deque(maxlen=MAX_DURATIONS)

    def read(self) -> None:
        """Take a reading, on the thread of the event loop. It costs about a microsecond."""
        now = system_clock.now()
        self._readings.append((now, self._count()))
        while self._readings[0][0] < now - WINDOW_SECONDS:
            self._readings.popleft()

    def per_second(self) -> float | None:
        """None before there are two readings."""
        if len(self._readings) < 2:
            return None
        (since, before), (until, present) = self._readings[0], self._readings[-1]
        return (present - before) / (until - since) if until > since else None
