"""Wakes the readers of membership changes. A slow reader gets many changes in one set, and misses none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from framehold_core.ids import NodeId

_log = logging.getLogger(__name__)


class Feed:
    """Notices of changed node leases for any number of readers. Readers are woken every `poll` seconds also without a
    notice, because a lease that runs out causes none. While `disconnected` is true, notices may be missed. When
    `closed` is true, every iteration has ended."""

    def __init__(self, poll: float, disconnected: bool = False) -> None:
        self.disconnected = disconnected
        self._poll = poll
        # A dict, since it keeps the order.
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._readers: list[set[NodeId | None]] = []
        self.closed = False

    def notify(self, node: NodeId | None = None) -> None:
        """Report to all readers that the lease of `node` may have changed; None stands for any lease."""
        for pending in self._readers:
            pending.add(node)
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def close(self) -> None:
        """End the iteration of every reader."""
        self.closed = True
        self.notify()

    async def changes(self) -> AsyncIterator[frozenset[NodeId | None]]:
        """Yields sets of nodes whose leases may have changed, at the start and after every notice; None in a set stands
        for all nodes. Every `poll` seconds yields an empty set, or {None} while the feed is disconnected."""
        pending: set[NodeId | None] = {None}
        self._readers.append(pending)
        now = asyncio.get_running_loop().time
        due = now() + self._poll
        try:
            while not self.closed:
                changed = frozenset(pending)
                pending.clear()
                yield changed
                try:
                    if not pending:
                        await self._wait_for_notice(due - now())
                except Exception:
                    # Without this its reader would never hear of a change again.
                    _log.exception("a bug in waiting for a changed lease; all leases are read, and it goes on")
                    pending.add(None)
                if pending and now() < due:
                    continue
                due = now() + self._poll
                if self.disconnected:
                    pending.add(None)
                elif pending and not self.closed:
                    yield frozenset()
        finally:
            self._readers.remove(pending)

    async def _wait_for_notice(self, seconds: float) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = None
        try:
            await asyncio.wait((waiter,), timeout=max(0.0, seconds))
        finally:
            self._waiting.pop(waiter, None)
