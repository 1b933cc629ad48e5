"""Measures how late the event loop is: a task sleeps, and measures by how much it wakes too late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

PAUSE = 0.25
"""Seconds between two measurements."""


async def watch(observe: Callable[[float], None]) -> None:
    """Measure again and again, until cancelled; `observe` gets the seconds by which the loop was late."""
    now = asyncio.get_running_loop().time
    while True:
        due = now() + PAUSE
        await asyncio.sleep(PAUSE)
        observe(max(0.0, now() - due))
