"""Durations of the last minute, for the status of a node.

The law: their number is bounded. Under load the newest ones represent the whole minute.
"""

from __future__ import annotations

from collections import deque

from .. import clock

WINDOW_SECONDS = 60.0
"""Durations of this many seconds back count."""
MAX_DURATIONS = 2048
"""How many durations are kept."""


class RecentDurations:
    """The newest durations, in seconds."""

    __slots__ = ("_durations",)

    def __init__(self) -> None:
        self._durations: deque[tuple[float, float]] = deque(maxlen=MAX_DURATIONS)

    def add(self, seconds: float) -> None:
        """Add a duration that has ended now."""
        self._durations.append((clock.now(), seconds))

    def quantile(self, part: float) -> float | None:
        """The duration that this part (0 to 1) of the durations does not exceed; None if there was none in the last
        minute."""
        since = clock.now() - WINDOW_SECONDS
        recent = sorted(seconds for at, seconds in self._durations if at >= since)
        return recent[min(len(recent) - 1, int(part * len(recent)))] if recent else None
