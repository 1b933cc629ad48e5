"""Whether the store answers, whether it has room, and how full it is, as far as one router can know.

The law: it informs operators, and no decision about a call needs it. The store is asked for its memory only when
somebody looks, at most once in FRESH seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from framehold_core.errors import StoreFull, StoreUnavailable
from framehold_store.base import MemoryUse, Store

ANSWERS, FULL, SILENT = "answers", "full", "silent"
"""The states of a store: it answers; it answers, and refuses what would take more memory; it does not answer."""
FRESH = 5.0
"""Seconds for which the memory of the store is not asked for again."""


def state_of(trouble: StoreUnavailable | None) -> str:
    """The state of a store by its last error; None stands for a reply."""
    if trouble is None:
        return ANSWERS
    return FULL if isinstance(trouble, StoreFull) else SILENT


class StoreLook(NamedTuple):
    """The state of the store, and its memory; None if it has no limit, or its limit is not known."""

    state: str = ANSWERS
    memory: MemoryUse | None = None


class StoreHealth:
    """The health of one store. `stale` says whether the last read of the node leases failed, `trouble` why this
    router's last write failed (None if it did not). `clock` gives seconds that never go back."""

    def __init__(
        self,
        store: Store,
        stale: Callable[[], bool],
        trouble: Callable[[], StoreUnavailable | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._stale, self._trouble, self._clock = store, stale, trouble, clock
        self._memory: MemoryUse | None = None
        self._asked: float | None = None

    async def look(self) -> StoreLook:
        """The present state. The memory is of the store's last answer."""
        if self._stale():
            return StoreLook(SILENT, self._memory)
        now = self._clock()
        if self._asked is None or now - self._asked >= FRESH:
            self._asked = now
            try:
                self._memory = await self._store.memory()
            except StoreUnavailable as error:
                return StoreLook(state_of(error), self._memory)
        used_up = self._memory is not None and self._memory.used >= self._memory.limit
        # A write may fail for other reasons: that reads are answered shows that the store is not silent.
        return StoreLook(FULL if used_up or isinstance(self._trouble(), StoreFull) else ANSWERS, self._memory)
