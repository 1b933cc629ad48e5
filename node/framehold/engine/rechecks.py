"""Compares live frames with their records after the store may have gone back to an older state (docs/protocol.md,
rule 7).

    1. the store was silent, the lease lapsed, or a write of some call was refused as BEHIND: a pass over all frames
       begins
    2. a few frames are verified at a time; a frame whose record lacks something writes its journal again
    3. the next frame follows when a verification, or the heal after it, is answered

The law: a pass is background work. A frame that waits for its turn goes on as ever, and its own next write heals it as
well. While the store does not answer the pass waits: the verifications that it left unanswered are sent again first.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from framehold_core import events as ev
from framehold_core.effects import Op

from .heartbeat import Alone, Heartbeat
from .shared import Shared
from .slot import Slot
from .tasks import keep

logger = logging.getLogger(__name__)

AT_ONCE = 64
"""How many frames are compared at the same time."""
PAUSE = 0.025
"""Seconds until further frames follow: 20,000 frames take 8 s at least."""
_CHECKS = (Op.VERIFY, Op.HEAL)


class Rechecks:
    """The passes of one node, one at a time."""

    def __init__(self, shared: Shared, heartbeat: Heartbeat | Alone) -> None:
        self._table, self._tasks, self._counts = shared.table, shared.tasks, shared.counts
        self._feed, self._heartbeat, self._clock = shared.loop.feed, heartbeat, shared.clock
        self._wanted = False
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """The store may have gone back: compare all frames with it. If a pass runs, another one follows: some of its
        frames may have been compared too early."""
        self._wanted = True
        if self._task is None or self._task.done():
            self._task = self._tasks.spawn(keep("the comparison of frames", self._turn, lambda: not self._wanted))

    async def _turn(self) -> None:
        self._wanted = False
        try:
            await self._compare_all()
        except Exception:
            self._wanted = True
            raise

    async def _compare_all(self) -> None:
        frames = [slot for slot in self._table if slot.frame is not None and slot.backing.beat is self._heartbeat]
        if not frames:
            return
        began, healed = self._clock.now(), self._counts["healed"]
        logger.info("the store may have gone back to an older state: %d frames are compared with it", len(frames))
        rest, busy = deque(frames), list[Slot]()
        while rest or busy:
            following = [rest.popleft() for _ in range(min(len(rest), AT_ONCE - len(busy)))]
            for slot in following:
                self._feed(slot, ev.Recheck(self._heartbeat.lease))
            await asyncio.sleep(PAUSE)
            busy = [slot for slot in (*busy, *following) if _is_compared(slot)]
        details = (len(frames), self._clock.now() - began, self._counts["healed"] - healed)
        logger.info("%d frames were compared with the store in %.1f s: %d were written again", *details)


def _is_compared(slot: Slot) -> bool:
    """Whether a verification or a heal of this call awaits its answer."""
    write = slot.call.outbox.in_flight
    return write is not None and write.op in _CHECKS
