"""The clock of this process, over the machine's own clocks and randomness."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

from framehold_core.clock import Clock

from .base import Store

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)

now: Callable[[], float] = time.monotonic if _BOOTTIME is None else partial(time.clock_gettime, _BOOTTIME)
"""Seconds since the machine started, on a clock that never goes back. Unlike `time.monotonic` it does not stop while
the machine is suspended (docs/protocol.md, rule 6)."""


async def measure(clock: Clock, store: Store) -> None:
    """Measure the clock of a store.

    Raises:
        StoreUnavailable: no answer came in time; the last measure stays.
    """
    sent = clock.now()
    clock.measured(await store.time(), sent, clock.now())


def system_clock() -> Clock:
    """A clock that has not measured a store yet."""
    return Clock(now, time.time, os.urandom)
