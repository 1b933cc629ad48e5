"""Admits new calls, and evicts frames to make room for them.

The law: a call that exists is never refused for want of room. A frame is evicted only if its journal can rebuild it;
the frame that has been parked the longest goes first. A frame is never evicted if its handler is not marked as
re-entrant, or while an effect or a write is under way. If no frame can be evicted, new calls are refused, and all
present calls go on.

By count, a frame is evicted when a call is entered beyond `FRAMEHOLD_MAX_PARKED`. By memory, frames are evicted in a
burst: from the high mark down to the low one, as many as should weigh the excess. A burst runs in small batches, so
that it does not block the loop.

A call with strategy replay is admitted anew in each round: its token may be sent any number of times, and each time
makes a frame. Its client loses nothing by a refusal."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter

from framehold_core import events as ev
from framehold_core.errors import NodeFull
from framehold_fleet.models.events import EventKind

from ..config import Settings
from . import memory
from .memory import Footprint
from .shared import Shared

logger = logging.getLogger(__name__)

COUNT, MEMORY = "evicted", "memory"
CAUSES = (COUNT, MEMORY)
"""The causes of evictions, as they are counted: one frame too many, or too little memory."""
BATCH = 32
"""Frames that are evicted in one turn of the loop: about a millisecond."""
READING_AGE = 0.05
"""Seconds for which a reading of the process's memory is used again, until READING_FRAMES more frames have come: each
may take a mebibyte. A reading takes ten microseconds."""
READING_FRAMES = 8
MAX_INTAKE = 256 << 20
"""Bytes that requests may hold where nothing else says how many."""
_MEBIBYTE = 1 << 20
_BUFFERED = "MAX_BUFFERED"


class Eviction:
    """Makes room on one node. Evictions and refusals are counted; each `sweep` logs how many there were and reports
    them to the observers."""

    def __init__(self, settings: Settings, shared: Shared) -> None:
        self._settings, self._table, self._tasks, self._counts = settings, shared.table, shared.tasks, shared.counts
        self._observers, self._feed, self._clock = shared.observers, shared.loop.feed, shared.clock
        self.footprint: Footprint | None = None
        """How much of its memory limit this process uses; None if it has no limit, or if its memory can't be read."""
        self.start: int | None = None
        """Bytes that this process had resident before its first call; None if not known."""
        self._read_at = -math.inf
        self._unreported: Counter[str] = Counter()
        self._dropped = 0
        self.earlier = 0
        """How many calls of clients of earlier revisions run."""

    def open(self) -> None:
        """Find the memory limit, and how much memory this process takes before its first call."""
        limit, resident = memory.allowed(self._settings.memory_limit), memory.resident()
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

    def admit(self, principal: str | None, weight: int) -> None:
        """Make room for a new call, whose request takes `weight` bytes.

        Raises:
            LimitExceeded: this principal has as many calls as it may, or they take as much memory as they may; nothing
                was started.
            NodeFull: this node has as many calls as it may, or memory is short; nothing was started.
        """
        self._table.admit(principal, weight, self._share())
        if (footprint := self._check_memory()) is not None:
            self._admit_to(footprint)
        limit = self._settings.max_parked
        self._evict(self._table.frames + 1 - limit, COUNT)
        if self._table.frames >= limit:
            self._refuse(
                f"this node holds {limit} calls, its limit (FRAMEHOLD_MAX_PARKED), and can let go of none of them",
                "MAX_PARKED",
            )

    def _share(self) -> float:
        """Bytes that the requests of one principal's calls may take."""
        return math.inf if self.footprint is None else self.footprint.most / 4

    def has_room(self, principal: str | None, weight: int) -> bool:
        """Whether `admit` would admit a call, and evict no frame for their number."""
        if principal is not None and not self._table.has_room_for(principal, weight, self._share()):
            return False
        footprint = self.footprint
        if footprint is not None:
            if self._is_reading_old(footprint, self._clock.now()):
                self._evict_for_memory(footprint)
            if footprint.used > footprint.high or footprint.resident > footprint.limit:
                return False
        return self._table.frames < self._settings.max_parked

    def admit_earlier(self) -> None:
        """Count a call of an earlier revision in `earlier`; the caller counts it down when the call ends. Such a call
        has no frame that could be evicted.

        Raises:
            NodeFull: as many such calls run as there may be frames; nothing was started.
        """
        limit = self._settings.max_parked
        if self.earlier >= limit:
            self._refuse(
                f"this node runs {limit} calls of clients of earlier revisions, its limit (FRAMEHOLD_MAX_PARKED)",
                "MAX_PARKED",
            )
        self.earlier += 1

    @property
    def intake(self) -> float:
        """Bytes that all requests which are being served may hold: FRAMEHOLD_MAX_BUFFERED, by default a quarter of what
        this process may take beside its start."""
        if self._settings.max_buffered is not None:
            return self._settings.max_buffered
        return MAX_INTAKE if self.footprint is None else min(MAX_INTAKE, self.footprint.most / 4)

    def room(self) -> float | None:
        """Bytes that this process may still take, after frames were evicted for it; None if that is not known."""
        footprint = self._check_memory()
        return None if footprint is None else footprint.limit - footprint.used

    def crowded_out(self) -> None:
        """Count a request that was refused since requests hold too much memory."""
        self._count(_BUFFERED)

    def _admit_to(self, footprint: Footprint) -> None:
        beyond = footprint.resident > footprint.limit and self._table.frames > 0
        if beyond or (footprint.short and not self._table.has_evictable):
            self._refuse(
                f"this node has {footprint.resident // _MEBIBYTE} MiB of {footprint.limit // _MEBIBYTE} MiB in use "
                "(FRAMEHOLD_MEMORY_LIMIT)",
                "MEMORY_LIMIT",
            )

    def _check_memory(self) -> Footprint | None:
        """Update the footprint before another frame is entered, and evict frames if memory is short. To wait for the
        next sweep would be too late: a node may enter hundreds of frames in a second."""
        footprint = self.footprint
        if footprint is not None:
            self._evict_for_memory(footprint)
        return footprint

    def _refuse(self, why: str, limit: str) -> None:
        self._count(limit)
        raise NodeFull(f"{why}; nothing was started; try again later", limit=limit)

    def _count(self, limit: str) -> None:
        self._counts["refused"] += 1
        self._unreported[limit] += 1
        self._table.refused(f"FRAMEHOLD_{limit}")

    def claimed(self) -> None:
        """A call was taken over, and its handler entered without admission: evict other frames for it."""
        self._evict(self._table.frames - self._settings.max_parked, COUNT)
        self._check_memory()

    async def sweep(self) -> None:
        """Evict frames if memory is short; then report the evictions and refusals since the last sweep."""
        if (footprint := self.footprint) is not None:
            for _ in iter(lambda: self._evict_for_memory(footprint), 0):
                # Between two batches the loop serves requests.
                await asyncio.sleep(0)
        self._report()

    def _evict_for_memory(self, footprint: Footprint) -> int:
        """Evict at most one batch of the excess frames; return how many. Frames whose handlers were cancelled and have
        not ended yet count as evicted."""
        cancelling, now = self._tasks.cancelling, self._clock.now()
        if (self._dropped - cancelling) * footprint.weight > footprint.slack:
            self._dropped, self._read_at = cancelling, -math.inf
            memory.trim()
        frames = self._table.frames + cancelling
        if self._is_reading_old(footprint, now) and (resident := memory.resident()) is not None:
            self._read_at = now
            footprint.look(resident, frames)
        else:
            footprint.count(frames)
        gone = self._evict(min(footprint.excess() - cancelling, BATCH), MEMORY)
        self._dropped += gone
        return gone

    def _is_reading_old(self, footprint: Footprint, now: float) -> bool:
        come = self._table.frames + self._tasks.cancelling - footprint.frames
        return now - self._read_at >= READING_AGE or come >= READING_FRAMES

    def _evict(self, count: int, cause: str) -> int:
        """Evict up to `count` frames; return how many were evicted."""
        gone = 0
        while gone < count and (slot := self._table.pop_oldest_evictable()) is not None:
            self._feed(slot, ev.Evict(cause))
            gone += 1
        self._unreported[cause] += gone
        return gone

    def _report(self) -> None:
        counts, self._unreported = self._unreported, Counter()
        for cause, why in _WHY.items():
            if counts[cause]:
                self._log_event(EventKind.EVICTED, f"{counts[cause]} frames were evicted ({why}): {_NEXT}")
        for limit in ("MAX_PARKED", "MEMORY_LIMIT", _BUFFERED):
            if counts[limit]:
                self._log_event(
                    EventKind.REFUSED, f"{counts[limit]} new calls were refused (FRAMEHOLD_{limit}): {_REFUSED}"
                )

    def _log_event(self, kind: EventKind, text: str) -> None:
        logger.warning("%s", text)
        self._observers.happened(kind, text, None)


_WHY = {COUNT: "more than FRAMEHOLD_MAX_PARKED", MEMORY: "memory is near FRAMEHOLD_MEMORY_LIMIT"}
_NEXT = "their calls continue from their journals at their next retry; a larger limit or more nodes would hold them"
_REFUSED = "what is here goes on and could not be evicted for them; raise the limit or add nodes"
