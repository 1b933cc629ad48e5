"""Whether the store answers, whether it has room, and how full it is, as far as one router can know.

The law: it informs operators, and no decision about a call needs it. The store is asked for its memory only when
somebody looks, at most once in FRESH seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from framehold_core.errors import StoreFull, StoreRefused, StoreUnavailable
from framehold_store.base import MemoryUse, Store

ANSWERS, FULL, REFUSES, SILENT = "answers", "full", "refuses", "silent"
"""The states of a store: it answers; it answers, and refuses what would take more memory; it answers with an error of
its own; it does not answer."""
OUT = (FULL, REFUSES, SILENT)
"""The states in which no node can write, the one that says most first."""
NEARLY_SLOW = 0.6
"""The part of the longest round trip to the store from which on it is reported."""
FRESH = 5.0
"""Seconds for which the memory of the store is not asked for again."""


def state_of(trouble: StoreUnavailable | None) -> str:
    """The state of a store by its last error; None stands for a reply."""
    if trouble is None:
        return ANSWERS
    if isinstance(trouble, StoreFull):
        return FULL
    return REFUSES if isinstance(trouble, StoreRefused) else SILENT


def says_of(trouble: StoreUnavailable | None) -> str:
    """The error with which the store answered; empty if it did not answer so."""
    return trouble.says if isinstance(trouble, StoreRefused) else ""


class StoreLook(NamedTuple):
    """The state of the store, and its memory; None if it has no limit, or its limit is not known. `says` is the error
    with which it answers."""

    state: str = ANSWERS
    memory: MemoryUse | None = None
    says: str = ""
    unsaved: str = ""
    """By what it says that its last save to disk failed; empty if it does not."""


class StoreHealth:
    """The health of one store. `unread` says why the last read of the node leases failed, `trouble` why this
    router's last write failed (None if it did not). `clock` gives seconds that never go back."""

    def __init__(
        self,
        store: Store,
        unread: Callable[[], StoreUnavailable | None],
        trouble: Callable[[], StoreUnavailable | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._unread, self._trouble, self._clock = store, unread, trouble, clock
        self._memory: MemoryUse | None = None
        self._unsaved = ""
        self._asked: float | None = None

    async def look(self) -> StoreLook:
        """The present state. The memory is of the store's last answer."""
        if (unread := self._unread()) is not None:
            return self._out(unread)
        now = self._clock()
        if self._asked is None or now - self._asked >= FRESH:
            self._asked = now
            try:
                self._memory, self._unsaved = await self._store.memory(), await self._store.unsaved()
            except StoreUnavailable as error:
                return self._out(error)
        used_up = self._memory is not None and self._memory.used >= self._memory.limit
        if used_up or isinstance(self._trouble(), StoreFull):
            return StoreLook(FULL, self._memory, unsaved=self._unsaved)
        # A write that was not answered says nothing: that reads are answered shows that the store is not silent.
        trouble = self._trouble()
        if isinstance(trouble, StoreRefused):
            return self._out(trouble)
        return StoreLook(ANSWERS, self._memory, unsaved=self._unsaved)

    def _out(self, trouble: StoreUnavailable) -> StoreLook:
        return StoreLook(state_of(trouble), self._memory, says_of(trouble))
