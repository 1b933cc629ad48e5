"""Durations of the last minute, for whoever asks a node how it is.

The law: bounded. Under load the newest stand for all of the minute.
"""

from __future__ import annotations

from collections import deque

from . import clock

SPAN = 60.0
"""Seconds."""
MOST = 2048
"""Durations that are kept."""


class Recent:
    """The newest durations, in seconds."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: deque[tuple[float, float]] = deque(maxlen=MOST)

    def add(self, seconds: float) -> None:
        """Keep one, of now."""
        self._kept.append((clock.now(), seconds))

    def quantile(self, part: float) -> float | None:
        """The duration that this part of them (0 to 1) does not exceed; None where nothing was kept in the last
        minute."""
        since = clock.now() - SPAN
        recent = sorted(seconds for at, seconds in self._kept if at >= since)
        return recent[min(len(recent) - 1, int(part * len(recent)))] if recent else None
