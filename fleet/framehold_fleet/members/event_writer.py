"""Writes what one process saw to a stream of the fleet, which is in the store: its event log, or its ended calls.

The law: no call waits for it. Entries are gathered for a moment and written together, by a task of their own. A write
that fails is tried again; what waits is bounded, and the oldest entries are dropped first, and counted. An entry that
is written again under the same key replaces the one that waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Generic, TypeVar

from framehold_core.errors import StoreUnavailable
from framehold_store.base import Store, StreamName

logger = logging.getLogger(__name__)

GATHER = 0.25
"""Seconds for which entries are gathered."""
RETRY = 2.0
"""Seconds after which a failed write is tried again."""
LAST = 0.5
"""Seconds for a last write when the process ends."""
BATCH = 200
"""Entries of one write at most."""
MAX_PENDING = 1_000
"""Entries that wait at most."""
_WHAT: Mapping[StreamName, str] = {"log": "events", "ended": "ended calls", "failed": "failed calls"}


EntryT = TypeVar("EntryT")


class EventWriter(Generic[EntryT]):
    """Writes entries to the stream `to` in `store`, as `encode` makes them. Belongs to one event loop at a time:
    that of `run`."""

    def __init__(self, store: Store, encode: Callable[[EntryT], bytes], to: StreamName = "log") -> None:
        self._store, self._encode, self._to = store, encode, to
        self._pending: dict[str, EntryT] = {}
        self._dropped = 0
        self._wake = asyncio.Event()
        self.trouble: StoreUnavailable | None = None
        """Why the last write failed; None if the store took it."""

    def write(self, key: str, entry: EntryT) -> None:
        """Write an entry soon. Never blocks and never raises."""
        self._pending.pop(key, None)
        self._pending[key] = entry
        if len(self._pending) > MAX_PENDING:
            del self._pending[next(iter(self._pending))]
            self._dropped += 1
        self._wake.set()

    async def run(self) -> None:
        """Write entries until cancelled; then write what is left, if the store takes it at once. May be run again, in
        this or another event loop."""
        self._wake = asyncio.Event()
        if self._pending:
            self._wake.set()
        try:
            while True:
                await self._wake.wait()
                await asyncio.sleep(GATHER)
                self._wake.clear()
                if not await self.flush():
                    await asyncio.sleep(RETRY)
                    self._wake.set()
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST):
                    await self.flush()

    async def flush(self) -> bool:
        """Write all entries that wait. Returns whether the store took them."""
        while batch := dict(islice(self._pending.items(), BATCH)):
            try:
                await self._store.append_events([*map(self._encode, batch.values())], self._to)
            except StoreUnavailable as error:
                if self.trouble is None:
                    logger.warning(
                        "%s could not be written for operators, and are tried again: %s", _WHAT[self._to], error
                    )
                self.trouble = error
                return False
            for key, entry in batch.items():
                if self._pending.get(key) is entry:
                    del self._pending[key]
        self.trouble = None
        if self._dropped:
            logger.warning("%d %s were dropped, the oldest: more came than could wait", self._dropped, _WHAT[self._to])
            self._dropped = 0
        return True
