"""Has the results that calls owe to the store written in time.

The handler hears the result of an effect at once; the next write of its call takes the result along (docs/protocol.md,
rule 13). If no write comes within the delay, the result is written by a write of its own, but not while the handler has
something to do: it may come to its next question, whose write takes the result along. One timer serves all calls of a
node.
"""

from __future__ import annotations

import asyncio

from framehold_core import events as ev

from .loop import Feed
from .slot import Slot


class OwedResults:
    """The calls that owe results, the one that owes one the longest first. `delay` is in seconds; 0 has each result
    written at once."""

    def __init__(self, delay: float, feed: Feed) -> None:
        self._delay, self._feed = delay, feed
        self._due: dict[Slot, float] = {}
        """When the results of each call are written, on the loop's clock; in this order."""
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop of the timer. One that has ended took its timer along."""

    def add(self, slot: Slot) -> None:
        """A call owes one more result."""
        if self._delay <= 0:
            self._feed(slot, ev.Flush())
            return
        if slot in self._due:
            if len(slot.call.owed) > 1:
                return
            # A write took along what it owed before.
            del self._due[slot]
        loop = asyncio.get_running_loop()
        due = self._due[slot] = loop.time() + self._delay
        if self._timer is None or self._loop is not loop:
            self._timer, self._loop = loop.call_at(due, self._write_due, loop), loop

    def write_all(self) -> None:
        """Write everything that is owed now: the node leaves."""
        while self._due:
            self._write(self._take())

    def _write_due(self, loop: asyncio.AbstractEventLoop) -> None:
        now, self._timer = loop.time(), None
        while self._due and next(iter(self._due.values())) <= now:
            slot = self._take()
            if slot.frame is not None and slot.frame.settles:
                self._due[slot] = now + self._delay
            else:
                self._write(slot)
        if self._due:
            self._timer = loop.call_at(next(iter(self._due.values())), self._write_due, loop)

    def _take(self) -> Slot:
        slot = next(iter(self._due))
        del self._due[slot]
        return slot

    def _write(self, slot: Slot) -> None:
        if slot.call.owed:
            self._feed(slot, ev.Flush())
