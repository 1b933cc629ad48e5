"""How late the event loop is: a task that sleeps, and looks how much later than it asked for it wakes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

PAUSE = 0.25
"""Seconds between two looks."""


async def watch(observe: Callable[[float], None]) -> None:
    """Tell, again and again until cancelled, by how many seconds the loop was late."""
    now = asyncio.get_running_loop().time
    while True:
        due = now() + PAUSE
        await asyncio.sleep(PAUSE)
        observe(max(0.0, now() - due))
