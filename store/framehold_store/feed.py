"""Wakes whoever follows the membership: a reader that lags hears of many changes at once, and misses none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from framehold_core.ids import NodeId


class Feed:
    """Any number of readers; each `poll` seconds they are woken, whatever was noticed: a lease that runs out is told by
    nobody. While it is `deaf`, silence means nothing: notices may have been missed."""

    def __init__(self, poll: float, deaf: bool = False) -> None:
        self.deaf = deaf
        self._poll = poll
        self._waiting: set[asyncio.Future[None]] = set()
        self._readers: list[set[NodeId | None]] = []
        self._closed = False

    def notify(self, node: NodeId | None = None) -> None:
        """The lease of this node may have changed, or any of them."""
        for news in self._readers:
            news.add(node)
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def close(self) -> None:
        """End every reader."""
        self._closed = True
        self.notify()

    async def changes(self) -> AsyncIterator[frozenset[NodeId | None]]:
        """Yields whose leases may have changed, None for any: at the start, and on every notice. Each `poll` seconds
        nobody's, or any where it is deaf."""
        news: set[NodeId | None] = {None}
        self._readers.append(news)
        now = asyncio.get_running_loop().time
        due = now() + self._poll
        try:
            while not self._closed:
                told = frozenset(news)
                news.clear()
                yield told
                if not news:
                    await self._silence(due - now())
                if news and now() < due:
                    continue
                due = now() + self._poll
                if self.deaf:
                    news.add(None)
                elif news and not self._closed:
                    yield frozenset()
        finally:
            self._readers.remove(news)

    async def _silence(self, seconds: float) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await asyncio.wait((waiter,), timeout=max(0.0, seconds))
        finally:
            self._waiting.discard(waiter)
