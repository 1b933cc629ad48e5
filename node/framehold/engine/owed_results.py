"""Has the results that calls owe to the store written in time.

The handler hears the result of an effect at once; the next write of its call takes the result along (docs/protocol.md,
rule 13). If no write comes within the delay, the result is written by a write of its own, but not while the handler has
something to do: it may come to its next question, whose write takes the result along. One timer serves all calls of a
node.
"""

from __future__ import annotations

import asyncio
from collections import deque

from framehold_core import events as ev

from .event_queue import Feed
from .slot import Slot


class OwedResults:
    """The calls that owe a result, the one that owes it the longest first. `delay` is in seconds; 0 has each result
    written at once."""

    def __init__(self, delay: float, feed: Feed) -> None:
        self._delay, self._feed = delay, feed
        self._waiting: deque[tuple[float, Slot]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, slot: Slot) -> None:
        """A call owes one more result."""
        if self._delay <= 0:
            self._feed(slot, ev.Flush())
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + self._delay
        self._waiting.append((due, slot))
        if self._timer is None:
            self._timer = loop.call_at(due, self._write_due, loop)

    def write_all(self) -> None:
        """Write everything that is owed now: the node leaves."""
        while self._waiting:
            _, slot = self._waiting.popleft()
            self._write(slot)

    def _write_due(self, loop: asyncio.AbstractEventLoop) -> None:
        now, self._timer = loop.time(), None
        while self._waiting and self._waiting[0][0] <= now:
            _, slot = self._waiting.popleft()
            if slot.frame is not None and slot.frame.settles:
                self._waiting.append((now + self._delay, slot))
            else:
                self._write(slot)
        if self._waiting:
            self._timer = loop.call_at(self._waiting[0][0], self._write_due, loop)

    def _write(self, slot: Slot) -> None:
        if slot.call.owed:
            self._feed(slot, ev.Flush())
