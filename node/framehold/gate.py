"""How many calls a node takes over at once: a storm of retries after a death must not become a storm of replays.

    1. a retry without a frame takes a place before its record is read; others wait in order of their coming
    2. its journal is read: it goes on when the journals of all who are being rebuilt fit the limit together
    3. its frame stands, or there is nothing to rebuild: place and weight are the next one's

The law: whoever waits for a place holds nothing but its request, whoever waits for weight its journal as read. A replay
that hangs keeps others out for `HELD` seconds and no longer: it may be for one of them that its handler waits.
"""

from __future__ import annotations

import asyncio
from collections import deque

from framehold_core.call import Phase

from . import clock
from .slots import Slot

AT_ONCE = 64
"""Calls that are looked up, claimed and rebuilt at the same time."""
WEIGHT = 32 * 1024 * 1024
"""Bytes of the journals that are being replayed at the same time; one that is larger than that goes alone."""
HELD = 5.0
"""Seconds for which a call that is being rebuilt keeps its place from those who wait."""
_BUSY = (Phase.LOOKING, Phase.CLAIMING, Phase.REBUILDING)


class Gate:
    """The places, and who waits for one."""

    def __init__(self, at_once: int = AT_ONCE, weight: int = WEIGHT) -> None:
        self._free, self._limit = at_once, weight
        self._weights: dict[Slot, int] = {}
        self._since: dict[Slot, float] = {}
        self._queue: deque[asyncio.Future[None]] = deque()
        self._heavy: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._loaded = 0

    async def enter(self, slot: Slot) -> None:
        """Wait for a place; a call that has one keeps it. Its journal is read again: it is weighed anew, lest it wait
        for itself."""
        if slot in self._weights:
            weight, self._weights[slot] = self._weights[slot], 0
            self._let(-weight)
            return
        if not self._free:
            turn = asyncio.get_running_loop().create_future()
            self._queue.append(turn)
            await self._come(turn, places=1)
        else:
            self._free -= 1
        self._weights[slot], self._since[slot] = 0, clock.now()

    async def weigh(self, slot: Slot, size: int) -> None:
        """Wait until `size` bytes more fit."""
        if self._heavy or (self._loaded and self._loaded + size > self._limit):
            turn = asyncio.get_running_loop().create_future()
            self._heavy.append((size, turn))
            await self._come(turn, weight=size)
        else:
            self._loaded += size
        if slot in self._weights:
            self._weights[slot] += size
        else:
            # It went while it waited.
            self._let(-size)

    async def _come(self, turn: asyncio.Future[None], places: int = 0, weight: int = 0) -> None:
        """Wait for a turn; what came with one that is not taken is the next one's."""
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._free += places
                self._let(-weight)
            raise

    def left(self, slot: Slot, gone: bool = False) -> None:
        """A call has taken a step, or is gone: its place is free when nothing is left to rebuild."""
        if slot not in self._weights or (slot.call.phase in _BUSY and not gone):
            return
        self._free += 1
        del self._since[slot]
        self._let(-self._weights.pop(slot))

    def relieve(self, now: float) -> None:
        """Give on the places of replays that take too long, if anybody waits; they go on without."""
        if self._queue or self._heavy:
            slow = [slot for slot, since in self._since.items() if now - since >= HELD]
            for slot in slow:
                if slot.call.phase is Phase.REBUILDING:
                    self.left(slot, gone=True)

    def _let(self, size: int) -> None:
        """The load has changed by `size` bytes: let in whoever fits now."""
        self._loaded += size
        while self._heavy and (not self._loaded or self._loaded + self._heavy[0][0] <= self._limit):
            size, turn = self._heavy.popleft()
            if not turn.done():
                self._loaded += size
                turn.set_result(None)
        while self._free and self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                self._free -= 1
                turn.set_result(None)
