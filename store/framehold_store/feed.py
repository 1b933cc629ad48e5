"""Wakes whoever follows the membership: a reader that lags sees one wake-up for many changes, and misses none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator


class Feed:
    """Any number of readers; `poll` is the longest silence in seconds before they are woken anyway. While it is `deaf`,
    silence means nothing: notices may have been missed."""

    def __init__(self, poll: float, deaf: bool = False) -> None:
        self.deaf = deaf
        self._poll = poll
        self._waiting: set[asyncio.Future[None]] = set()
        self._count = 0
        self._closed = False

    def notify(self) -> None:
        """Something may have changed."""
        self._count += 1
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def close(self) -> None:
        """End every reader."""
        self._closed = True
        self.notify()

    async def changes(self) -> AsyncIterator[bool]:
        """Yields True at the start and on every notice; after every `poll` seconds of silence, whether it is deaf."""
        seen = -1
        while not self._closed:
            heard, seen = self.deaf or seen != self._count, self._count
            yield heard
            if seen == self._count:
                await self._silence()

    async def _silence(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await asyncio.wait((waiter,), timeout=self._poll)
        finally:
            self._waiting.discard(waiter)
