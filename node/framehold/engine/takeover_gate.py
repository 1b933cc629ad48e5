"""Limits how many calls a node takes over at once: many retries after a node's death must not become as many replays.

    1. a retry without a frame takes a place before its record is read; if none is free, it waits in order of arrival
    2. its journal is read; it goes on when all journals that are being replayed fit the limit of bytes together
    3. its frame is rebuilt, or there is nothing to rebuild: its place and its bytes are free for the next call

The law: a call that waits for a place holds nothing but its request; a call that waits for bytes holds its journal as
read. A replay that hangs keeps its place for `MAX_WAIT` seconds at most while others wait: its handler may be waiting
for one of those calls. A suspect (docs/protocol.md, rule 27) gives its place back until its turn comes: then no other
call has a place or waits for one.
"""

from __future__ import annotations

import asyncio
from collections import deque

from framehold_core import suspects
from framehold_core.call import Phase
from framehold_core.clock import Clock

from .slot import Slot

MAX_TAKEOVERS = 64
"""Calls that are looked up, claimed and rebuilt at the same time."""
MAX_JOURNAL_BYTES = 32 * 1024 * 1024
"""Bytes of all journals that are replayed at the same time. A journal that is larger is replayed alone."""
MAX_WAIT = 5.0
"""Seconds for which a call that is being rebuilt keeps its place while other calls wait for one."""
_BUSY = (Phase.LOOKING, Phase.CLAIMING, Phase.REBUILDING)
_MOVED_ON = (Phase.PARKED, Phase.IDLE)


class TakeoverGate:
    """The places, and the calls that wait for one. `at_once` is the number of places, `weight` the limit on journals in
    bytes."""

    def __init__(self, clock: Clock, at_once: int = MAX_TAKEOVERS, weight: int = MAX_JOURNAL_BYTES) -> None:
        self._clock, self._free, self._limit = clock, at_once, weight
        self._weights: dict[Slot, int] = {}
        self._since: dict[Slot, float] = {}
        self._queue: deque[asyncio.Future[None]] = deque()
        self._weight_queue: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._weight = 0
        self.suspects: suspects.Suspects[Slot] = suspects.Suspects()
        self._turns: dict[Slot, asyncio.Future[bool]] = {}

    async def enter(self, slot: Slot) -> None:
        """Wait for a place. A call that has one keeps it; its journal will be read again, so its bytes are given back
        first: otherwise it would wait for itself in `weigh`."""
        if slot in self._weights:
            weight, self._weights[slot] = self._weights[slot], 0
            self._change_weight(-weight)
            return
        if self._free:
            self._free -= 1
            self._hold(slot, None)
        else:
            await self._wait_turn(slot, None)

    async def weigh(self, slot: Slot, size: int) -> None:
        """Wait until `size` more bytes fit the limit."""
        if self._weight_queue or (self._weight and self._weight + size > self._limit):
            await self._wait_turn(slot, size)
        else:
            self._weight += size
            self._hold(slot, size)

    async def _wait_turn(self, slot: Slot, size: int | None) -> None:
        """Wait for `size` bytes, or for a place if `size` is None. If the wait is cut off after the turn was granted,
        what was granted goes to the next call; if before, the turn is given up."""
        turn = asyncio.get_running_loop().create_future()
        if size is None:
            self._queue.append(turn)
        else:
            self._weight_queue.append((size, turn))
        try:
            await turn
        except BaseException:
            if not turn.cancel() and not turn.cancelled():
                self._free += size is None
                self._change_weight(-(size or 0))
            raise
        self._hold(slot, size)

    def _hold(self, slot: Slot, size: int | None) -> None:
        """A call has got `size` bytes, or a place if `size` is None."""
        if size is None:
            self._weights[slot], self._since[slot] = 0, self._clock.now()
        elif slot in self._weights:
            self._weights[slot] += size
        else:
            # The call was removed while it waited.
            self._change_weight(-size)

    def release(self, slot: Slot, gone: bool = False) -> None:
        """A call has taken a step, or is `gone`. Free its place and its bytes if nothing is left to rebuild, and end
        its turn if it is parked or gone from here."""
        if gone or slot.call.phase not in _BUSY:
            self._free_place(slot)
        if gone or slot.call.phase in _MOVED_ON:
            self.end_turn(slot)

    def _free_place(self, slot: Slot) -> None:
        if slot not in self._weights:
            return
        self._free += 1
        del self._since[slot]
        self._change_weight(-self._weights.pop(slot))
        self._begin_turn()

    async def take_turn(self, slot: Slot) -> bool:
        """Wait until a suspect may be claimed, without its place; whether it may. It has its place again then."""
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._turns[slot] = turn
        self.suspects.join(slot)
        self._free_place(slot)
        self._begin_turn()
        try:
            async with asyncio.timeout(suspects.PATIENCE):
                may_enter = await turn
        except TimeoutError:
            may_enter = False
        finally:
            del self._turns[slot]
            if not self.suspects.has_turn(slot):
                self.suspects.leave(slot)
        if may_enter:
            await self.enter(slot)
        return may_enter

    def end_turn(self, slot: Slot) -> None:
        """A call has moved on, has ended, or is not here any more: the next suspect may be entered."""
        self.suspects.leave(slot)
        if (turn := self._turns.get(slot)) is not None and not turn.done():
            turn.set_result(False)
        self._begin_turn()

    def _begin_turn(self) -> None:
        if not self.suspects.waiting:
            return
        others = bool(self._queue) or any(not self.suspects.has_turn(slot) for slot in self._weights)
        slot = self.suspects.next(self._clock.now(), others)
        if slot is not None and not self._turns[slot].done():
            self._turns[slot].set_result(True)

    def release_slow(self, now: float) -> None:
        """If calls wait, free the places of replays that take too long. Those replays go on without a place. `now` is
        in seconds on the node's clock."""
        self._begin_turn()
        if self._queue or self._weight_queue or self.suspects.waiting:
            slow = [slot for slot, since in self._since.items() if now - since >= MAX_WAIT]
            for slot in slow:
                if slot.call.phase is Phase.REBUILDING:
                    self._free_place(slot)

    def _change_weight(self, size: int) -> None:
        """The bytes in use change by `size`: let in the waiting calls that fit now."""
        self._weight += size
        while self._weight_queue and (not self._weight or self._weight + self._weight_queue[0][0] <= self._limit):
            size, turn = self._weight_queue.popleft()
            if not turn.done():
                self._weight += size
                turn.set_result(None)
        while self._free and self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                self._free -= 1
                turn.set_result(None)
