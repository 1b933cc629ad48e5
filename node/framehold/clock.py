"""The clock that leases are measured on: it does not stop while the machine is suspended (PROTOCOL rule 6)."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)

now: Callable[[], float] = time.monotonic if _BOOTTIME is None else partial(time.clock_gettime, _BOOTTIME)
"""Seconds since the machine started, on a clock that never goes back."""

_APART = time.time() - now()


def wall(at: float) -> float:
    """A time on this clock in seconds since 1970, by what lay between the two when the process began: one time is told
    alike, whenever it is told."""
    return at + _APART
