"""A background scan of the store for calls that no node runs. It counts and lists them, and takes none over.

    1. one node of the fleet scans: the first by name of the live nodes; when it is gone, the next one. Each other node
       checks whether it is its turn; a node with a higher rank checks less often
    2. a portion of the records is read each second, without their journals, so that the scan does not block the store
    3. at the end of a scan it is known how many calls are orphaned (their node is gone, and their client has not come
       back yet), how many are stuck, and which calls these are, up to a limit

The law: the scan only reads. A call is carried on when its client comes back: until then its frame is not needed. The
counts are approximate: a record that moves during a scan may be counted twice, or not at all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import Boot, NodeId
from framehold_core.requests import RecordState
from framehold_core.writes import MAX_ATTEMPTS
from framehold_router.fleet.lease_seal import LeaseSeal
from framehold_store.base import Store, Summary

from .heartbeat import Alone, Heartbeat
from .tasks import keep

logger = logging.getLogger(__name__)

PORTION = 200
"""How many records are read in one step."""
STEP, PAUSE = 1.0, 10.0
"""Seconds between two steps of a scan, and between two scans."""
MAX_RANK = 30
"""A node waits one pause for each live node before it, but at most this many pauses."""
MAX_NAMED_CALLS = 1000
"""How many calls a scan lists; further ones are only counted."""


class Marked(NamedTuple):
    """What a scan found. `looked` is the number of records, `orphaned` and `stuck` are counts of calls, and `calls`
    lists up to MAX_NAMED_CALLS of these. `unreadable` counts records that were passed over: another program wrote them,
    or a newer release."""

    looked: int = 0
    orphaned: int = 0
    stuck: int = 0
    calls: tuple[Summary, ...] = ()
    unreadable: int = 0


class OrphanScan:
    """The scan of one node. Only leases whose `seals` hold are believed. `max_attempts` is how many processes may end
    in one round of a call before it is stuck. `pace` has the seconds between two steps, and between two scans.
    `outlives` is for how many seconds a record is kept after its last token has expired: such a call is not counted,
    since its client can't come back. `marked` is what the last scan found; empty on a node that doesn't scan."""

    def __init__(
        self,
        store: Store,
        heartbeat: Heartbeat | Alone,
        seals: LeaseSeal,
        max_attempts: int = MAX_ATTEMPTS,
        outlives: float = 0.0,
        pace: tuple[float, float] = (STEP, PAUSE),
    ) -> None:
        self._store, self._heartbeat, self._seals, (self._step, self._pause) = store, heartbeat, seals, pace
        self._max_attempts, self._outlives = max_attempts, outlives
        self.marked = Marked()
        self.rank = 0
        """How many live nodes stood before this one by name at the last check."""

    async def run(self) -> None:
        """Scan again and again, until cancelled."""
        await keep("the scan for orphaned calls", self._turn)

    async def _turn(self) -> None:
        await asyncio.sleep(self._pause * min(max(1, self.rank), MAX_RANK))
        try:
            self.marked = await self.walk()
        except StoreUnavailable as error:
            logger.info("orphaned calls were not looked for, the store does not answer: %s", error)

    async def walk(self) -> Marked:
        """Scan all records once and return what was found; empty if it is not this node's turn.

        Raises:
            StoreUnavailable: the store did not answer in time; the result of the last scan stays.
        """
        marked, cursor = Marked(), ""
        while True:
            boots = {node.node: node.boot for node in await self._store.nodes() if self._seals.holds(node)}
            me = self._heartbeat.lease.node
            self.rank = sum(node < me for node in boots)
            if self.rank or me not in boots:
                return Marked()
            swept = await self._store.scan(cursor, PORTION)
            marked = self._add_found(marked, swept.found, boots)
            marked = marked._replace(unreadable=marked.unreadable + swept.unreadable)
            cursor = swept.cursor
            if not cursor:
                break
            await asyncio.sleep(self._step)
        if (marked.orphaned, marked.stuck) != (self.marked.orphaned, self.marked.stuck):
            logger.info(
                "%d calls wait for their clients to come back, since their nodes are gone; %d are stuck",
                marked.orphaned,
                marked.stuck,
            )
        if marked.unreadable > self.marked.unreadable:
            logger.warning(
                "%d records can't be read: they are passed over, and their calls are not counted; check who else "
                "writes this store",
                marked.unreadable,
            )
        return marked

    def is_stuck(self, item: Summary) -> bool:
        """Whether the call's handler is not entered again, since it was entered too often (docs/protocol.md, rule
        15)."""
        return item.state is RecordState.OPEN and item.attempts >= self._max_attempts

    def _add_found(self, marked: Marked, found: Iterable[Summary], boots: Mapping[NodeId, Boot]) -> Marked:
        until = self._heartbeat.clock.time() + self._outlives
        for item in found:
            # A call that has not asked, or whose token has expired, has no client that could come back.
            awaited = item.round > 0 and item.expires > until
            stuck = awaited and self.is_stuck(item)
            gone = item.state is RecordState.OPEN and boots.get(NodeId(item.owner)) != item.boot
            orphaned = awaited and gone and not stuck
            marked = Marked(
                marked.looked + 1,
                marked.orphaned + orphaned,
                marked.stuck + stuck,
                (*marked.calls, item) if (stuck or orphaned) and len(marked.calls) < MAX_NAMED_CALLS else marked.calls,
                marked.unreadable,
            )
        return marked
