"""Who may begin a call, and whose frame goes for it.

The law: a call that exists is never refused for want of room. A frame is evicted only where its journal can rebuild it,
the one that rests the longest first; never that of a handler which is not marked, nor one with an effect or a write
under way. Where none is left to go, new calls are refused, and whatever is here goes on.

By count a frame goes when one more is entered than `FRAMEHOLD_MAX_PARKED`. By memory they go in a burst, from the high
mark down to the low one, as many as should weigh what is too much; in small batches, since others want the loop.

What is in a token (strategy replay) is admitted anew in each round: a token may be sent again and again, and each time
makes a frame. Its client loses nothing by a refusal."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable

from framehold_core import events as ev
from framehold_core.errors import LimitExceeded

from . import clock, memory
from .config import Settings
from .memory import Footprint
from .slots import Slot
from .table import Table
from .tasks import Tasks
from .watch import Watches

logger = logging.getLogger(__name__)

COUNT, MEMORY = CAUSES = ("evicted", "memory")
"""Why a frame was evicted, as it is counted: one too many, or too little memory."""
BATCH = 32
"""Frames that are evicted in one turn of the loop: about a millisecond."""
LOOK = 0.01
"""Seconds for which what was read of memory is good enough to admit by: a reading takes ten microseconds."""
_MEBIBYTE = 1 << 20


class Eviction:
    """Makes room on one node. `feed` steps a call; what is evicted and refused is counted in `counts`, and told once
    for each look, `watches` too."""

    def __init__(
        self,
        settings: Settings,
        table: Table,
        tasks: Tasks,
        counts: Counter[str],
        watches: Watches,
        feed: Callable[[Slot, ev.Event], None],
    ) -> None:
        self._settings, self._table, self._tasks, self._counts, self._feed = settings, table, tasks, counts, feed
        self._watches = watches
        self.footprint: Footprint | None = None
        """What this process uses of its limit on memory; None where there is none."""
        self.start: int | None = None
        """Bytes that this process took before its first call, if that is known."""
        self._looked = -math.inf
        self._told: Counter[str] = Counter()
        self._dropped = 0
        self.earlier = 0
        """Calls of earlier revisions that run."""

    def open(self) -> None:
        """Find the limit on memory, and what this process takes before its first call."""
        limit, resident = self._settings.memory_limit or memory.limit(), memory.resident()
        self.start = resident
        self.footprint = None if limit is None or resident is None else Footprint(limit, resident)
        if self.footprint is not None and self.footprint.used > self.footprint.low:
            logger.warning(
                "FRAMEHOLD_MEMORY_LIMIT is %d MiB and this process takes %d MiB before its first call: few calls can "
                "be held, or none; give it more memory",
                self.footprint.limit // _MEBIBYTE,
                self.footprint.resident // _MEBIBYTE,
            )
        elif self.footprint is None and self._settings.memory_limit is not None:
            logger.warning("FRAMEHOLD_MEMORY_LIMIT is not kept: this system does not say what a process holds")

    def admit(self, principal: str | None) -> None:
        """Make room for a new call.

        Raises:
            LimitExceeded: this node, or this principal, has as many calls as it may, or memory is short; nothing was
                started.
        """
        self._table.admit(principal)
        if (footprint := self._watched()) is not None:
            self._admit_to(footprint)
        limit = self._settings.max_parked
        self._evict(self._table.frames + 1 - limit, COUNT)
        if self._table.frames >= limit:
            self._refuse(
                f"this node holds {limit} calls, its limit (FRAMEHOLD_MAX_PARKED), and can let go of none of them",
                "MAX_PARKED",
            )

    def admit_earlier(self) -> None:
        """Count in a call of an earlier revision; count `earlier` down when it ends. It has no frame that could go.

        Raises:
            LimitExceeded: as many of them run as there may be frames; nothing was started.
        """
        limit = self._settings.max_parked
        if self.earlier >= limit:
            self._refuse(
                f"this node runs {limit} calls of clients of earlier revisions, its limit (FRAMEHOLD_MAX_PARKED)",
                "MAX_PARKED",
            )
        self.earlier += 1

    def _admit_to(self, footprint: Footprint) -> None:
        beyond = footprint.resident > footprint.limit and self._table.frames > 0
        if beyond or (footprint.short and not self._table.rests):
            self._refuse(
                f"this node has {footprint.resident // _MEBIBYTE} MiB of {footprint.limit // _MEBIBYTE} MiB in use "
                "(FRAMEHOLD_MEMORY_LIMIT)",
                "MEMORY_LIMIT",
            )

    def _watched(self) -> Footprint | None:
        """Memory as it is before another frame is entered. Where it is short, frames go before that one takes its
        share: a second until the next look is long for a node that enters hundreds in it."""
        footprint = self.footprint
        if footprint is not None:
            self._spare(footprint)
        return footprint

    def _refuse(self, why: str, limit: str) -> None:
        self._counts["refused"] += 1
        self._told[limit] += 1
        raise LimitExceeded(f"{why}; nothing was started; try again later", limit=limit)

    def claimed(self) -> None:
        """A call is carried on here, and its handler was entered whatever there is: others make room for it."""
        self._evict(self._table.frames - self._settings.max_parked, COUNT)
        self._watched()

    async def look(self) -> None:
        """See to memory, and tell what came of it since the last look."""
        if (footprint := self.footprint) is not None:
            for _ in iter(lambda: self._spare(footprint), 0):
                # In portions: others want the loop.
                await asyncio.sleep(0)
        self._tell()

    def _spare(self, footprint: Footprint) -> int:
        """Evict some of the frames that should go, beyond those whose handlers are coming to their ends; how many."""
        burying, now = self._tasks.burying, clock.now()
        if (self._dropped - burying) * footprint.weight > footprint.slack:
            self._dropped, self._looked = burying, -math.inf
            memory.trim()
        frames = self._table.frames + burying
        if now - self._looked >= LOOK and (resident := memory.resident()) is not None:
            self._looked = now
            footprint.look(resident, frames)
        else:
            footprint.count(frames)
        gone = self._evict(min(footprint.excess() - burying, BATCH), MEMORY)
        self._dropped += gone
        return gone

    def _evict(self, count: int, cause: str) -> int:
        """Evict up to so many frames; how many there were."""
        gone = 0
        while gone < count and (slot := self._table.rested()) is not None:
            self._feed(slot, ev.Evict(cause))
            gone += 1
        self._told[cause] += gone
        return gone

    def _tell(self) -> None:
        told, self._told = self._told, Counter()
        for cause, why in _WHY.items():
            if told[cause]:
                self._say("evicted", f"{told[cause]} frames were evicted ({why}): {_NEXT}")
        for limit in ("MAX_PARKED", "MEMORY_LIMIT"):
            if told[limit]:
                self._say("refused", f"{told[limit]} new calls were refused (FRAMEHOLD_{limit}): {_REFUSED}")

    def _say(self, kind: str, text: str) -> None:
        logger.warning("%s", text)
        self._watches.happened(kind, text)


_WHY = {COUNT: "more than FRAMEHOLD_MAX_PARKED", MEMORY: "memory is near FRAMEHOLD_MEMORY_LIMIT"}
_NEXT = "their calls continue from their journals at their next retry; a larger limit or more nodes would hold them"
_REFUSED = "what is here goes on and could not be evicted for them; raise the limit or add nodes"
