"""A background look over the store for calls that nobody runs: it marks them, and takes none over.

    1. one node of the fleet looks, the first by name of those that are live; when it goes, the next one does. The
       others ask whether it is their turn, the more seldom the farther they stand behind: it will be the next one's
    2. a portion of the records is read each second, without their journals; no walk hurries, and none blocks the store
    3. at the end of a walk: how many calls are orphaned (their node is gone, and no client has come back yet), how many
       are stuck, and which they are, up to a limit

The law: it only reads. A call is carried on when its client comes back: until then nobody needs its frame. Its counts
are about right: a record that moves while it is walked past may be counted twice, or not.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import Boot, NodeId
from framehold_core.requests import RecordState
from framehold_core.writes import MAX_ATTEMPTS
from framehold_store.base import Store, Summary

from .heartbeat import Alone, Heartbeat

logger = logging.getLogger(__name__)

PORTION = 200
"""Records that are looked at in one step."""
STEP, PAUSE = 1.0, 10.0
"""Seconds between two steps of a walk, and between two walks."""
LINE = 30
"""A node rests for as many pauses as there are others before it, and for no more than these."""
KEPT = 1000
"""How many calls are kept by name: beyond it they are only counted."""


class Marked(NamedTuple):
    """What the last walk found. `looked` is the number of records; `orphaned` and `stuck` count all, `calls` has some
    of them."""

    looked: int = 0
    orphaned: int = 0
    stuck: int = 0
    calls: tuple[Summary, ...] = ()


class Orphans:
    """The walk of one node. `outlives` is for how many seconds a record is kept when its last token has expired: its
    client comes too late then, and nobody waits for it. `marked` is what the last walk found; empty on a node that
    doesn't look."""

    def __init__(
        self,
        store: Store,
        heartbeat: Heartbeat | Alone,
        outlives: float = 0.0,
        step: float = STEP,
        pause: float = PAUSE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._heartbeat, self._step, self._pause = store, heartbeat, step, pause
        self._outlives, self._clock = outlives, clock
        self.marked = Marked()
        self.before = 0
        """How many live nodes stand before this one, when it looked last."""

    async def run(self) -> None:
        """Walk again and again, until cancelled."""
        while True:
            await asyncio.sleep(self._pause * min(max(1, self.before), LINE))
            try:
                self.marked = await self.walk()
            except StoreUnavailable as error:
                logger.info("orphaned calls were not looked for, the store does not answer: %s", error)
            except Exception:
                # A walk that died would mark nothing any more, and say nothing.
                logger.exception("a bug in looking for orphaned calls; the next walk begins as ever")

    async def walk(self) -> Marked:
        """Look at all records once, if it is this node's turn.

        Raises:
            StoreUnavailable: nobody answered in time; nothing was marked.
        """
        marked, cursor = Marked(), ""
        while True:
            boots = {node.node: node.boot for node in await self._store.nodes()}
            me = self._heartbeat.lease.node
            self.before = sum(node < me for node in boots)
            if self.before or me not in boots:
                return Marked()
            swept = await self._store.sweep(cursor, PORTION)
            marked = _with(marked, swept.found, boots, self._clock() + self._outlives)
            cursor = swept.cursor
            if not cursor:
                break
            await asyncio.sleep(self._step)
        if (marked.orphaned, marked.stuck) != (self.marked.orphaned, self.marked.stuck):
            told = "%d calls wait for their clients to come back, since their nodes are gone; %d are stuck"
            logger.info(told, marked.orphaned, marked.stuck)
        return marked


def is_stuck(item: Summary) -> bool:
    """Whether nobody enters the call's handler again (rule 15)."""
    return item.state is RecordState.OPEN and item.attempts >= MAX_ATTEMPTS


def _with(marked: Marked, found: Iterable[Summary], boots: Mapping[NodeId, Boot], until: float) -> Marked:
    for item in found:
        # Without a question, or after its time, there is no token that a client could come back with.
        awaited = item.round > 0 and item.expires > until
        stuck = awaited and is_stuck(item)
        gone = item.state is RecordState.OPEN and boots.get(NodeId(item.owner)) != item.boot
        orphaned = awaited and gone and not stuck
        marked = Marked(
            marked.looked + 1,
            marked.orphaned + orphaned,
            marked.stuck + stuck,
            (*marked.calls, item) if (stuck or orphaned) and len(marked.calls) < KEPT else marked.calls,
        )
    return marked
