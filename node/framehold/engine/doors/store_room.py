"""How full the store is, as this node knows it.

A node asks for it at its start and after each heartbeat. A store that does not say it, by a limit that it does not have
or a right that its user lacks, is taken to have room: what it refuses then is refused by itself.
"""

from __future__ import annotations

import asyncio
import logging

from framehold_core import room
from framehold_core.errors import StoreUnavailable
from framehold_store.base import MemoryUse, Store

from ..tasks import Tasks

logger = logging.getLogger(__name__)

_MEBIBYTE = 1 << 20
_SHORT = "the store has {} MiB of {} MiB in use (maxmemory), and the rest is kept for calls that exist"
_UNKNOWN = (
    "the store does not say how full it is: its user may not run INFO, or it has no maxmemory; so new calls are taken "
    "until it refuses writes"
)


class StoreRoom:
    """The memory of the store of one node. `is_shared` says whether the store is another process: only then it is
    asked."""

    def __init__(self, store: Store, tasks: Tasks, is_shared: bool) -> None:
        self._store, self._tasks, self._is_shared = store, tasks, is_shared
        self._use: MemoryUse | None = None
        self._asking: asyncio.Task[None] | None = None
        self._said = False

    @property
    def trouble(self) -> str | None:
        """Why the store has no room for new calls; None if it has, or does not say."""
        use = self._use
        if use is None or room.takes_new_calls(use.used, use.limit):
            return None
        return _SHORT.format(use.used // _MEBIBYTE, use.limit // _MEBIBYTE)

    async def read(self) -> None:
        """Ask the store. If it does not answer, what is known stands."""
        if not self._is_shared:
            return
        try:
            self._use = await self._store.memory()
        except StoreUnavailable:
            return
        if self._use is None and not self._said:
            self._said = True
            logger.info(_UNKNOWN)

    def renewed(self) -> None:
        """A heartbeat was acknowledged: ask the store, unless that is under way."""
        if self._asking is None or self._asking.done():
            self._asking = self._tasks.spawn(self.read())
