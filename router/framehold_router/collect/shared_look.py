"""Shares one read of all nodes between readers that ask at the same time.

The law: a result is used again for FRESH seconds, unless the members of the fleet have changed. A reader that is
cancelled does not cancel the read. A failed read is not used again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from framehold_fleet.members.membership import Fleet

FRESH = 0.5

Found = TypeVar("Found")


class SharedLook(Generic[Found]):
    """Shares the results of `look`. Belongs to one event loop; `close` it."""

    def __init__(self, fleet: Callable[[], Fleet], look: Callable[[], Coroutine[Any, Any, Found]], name: str) -> None:
        self._fleet, self._look, self._name = fleet, look, name
        self._last: asyncio.Task[Found] | None = None
        self._looking: set[asyncio.Task[Found]] = set()
        self._of: frozenset[tuple[str, str, str]] = frozenset()
        self._until = 0.0
        """Until when the result of the last read is fresh; 0 until it has one."""

    async def result(self) -> Found:
        """The result of the read under way, or of the last one while it is fresh, or of a new one."""
        task, now = self._last, asyncio.get_running_loop().time()
        of = frozenset((member.node, member.boot, member.state) for member in self._fleet().members.values())
        if task is None or of != self._of or (task.done() and now >= self._until):
            task = self._last = asyncio.create_task(self._timed(), name=self._name)
            self._of, self._until = of, 0.0
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Cancel the reads under way."""
        tasks = tuple(self._looking)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _timed(self) -> Found:
        found = await self._look()
        if asyncio.current_task() is self._last:
            self._until = asyncio.get_running_loop().time() + FRESH
        return found
