"""The clock that leases are measured on: it does not stop while the machine is suspended (docs/protocol.md, rule 6)."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)

now: Callable[[], float] = time.monotonic if _BOOTTIME is None else partial(time.clock_gettime, _BOOTTIME)
"""Seconds since the machine started, on a clock that never goes back."""

_WALL_OFFSET = time.time() - now()


def wall(at: float) -> float:
    """The time `at` on this clock in seconds since 1970. It uses the difference of both clocks at the start of the
    process, so that one time always gives the same result."""
    return at + _WALL_OFFSET
