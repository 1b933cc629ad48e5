"""A background scan of the store for calls that no node runs. It counts and lists them, and takes none over.

    1. one node of the fleet scans: the first by name of the live nodes; when it is gone, the next one. Each other node
       checks whether it is its turn; a node with a higher rank checks less often
    2. a portion of the records is read at a time, without their journals, so that the scan does not block the store
    3. at the end of a scan it is known how many calls are orphaned (their node is gone, and their client has not come
       back yet), handed off, lost and stuck, and which calls these are, up to a limit
    4. when a node is gone, the next scan begins at once

The law: the scan only reads. A call is carried on when its client comes back: until then its frame is not needed. The
counts are approximate: a record that moves during a scan may be counted twice, or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import Boot, NodeId
from framehold_core.requests import RecordState
from framehold_core.writes import MAX_ATTEMPTS
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.models.open_calls import ScanView
from framehold_store.base import Store, Summary

from .heartbeat import Alone, Heartbeat
from .tasks import keep

logger = logging.getLogger(__name__)

_NAMED = ("orphaned", "lost", "stuck")
"""What of `OrphanCounts` a scan lists by name."""
PORTION = 500
"""How many records are read in one step."""
STEP, PAUSE = 0.25, 10.0
"""Seconds between two steps of a scan, and between two scans."""
STEPS_A_LOOK = 4
"""How many steps are made before the leases are read again."""
WATCH = 1.0
"""Seconds between two looks of the node that scans whether a node is gone: then a scan begins at once."""
MAX_RANK = 30
"""A node waits one pause for each live node before it, but at most this many pauses."""
MAX_NAMED_CALLS = 1000
"""How many calls a scan lists; further ones are only counted."""

Lives = Collection[tuple[str, str]]
"""Lives of nodes: name and boot."""


class OrphanCounts(NamedTuple):
    """What a scan found. `looked` is the number of records; the next four are counts of calls whose clients may come
    back: `orphaned` and `lost` ones, whose node is gone, are re-entrant or not; `handed_off` ones were released by a
    node that is gone. `calls` lists up to MAX_NAMED_CALLS orphaned, lost and stuck ones. `unreadable` counts records
    that were passed over: another program wrote them, or a newer release. The scan ran from `began` to `at`, in seconds
    since 1970; a node is gone if it was gone at `began`."""

    looked: int = 0
    orphaned: int = 0
    stuck: int = 0
    lost: int = 0
    handed_off: int = 0
    calls: tuple[Summary, ...] = ()
    unreadable: int = 0
    began: float = 0.0
    at: float = 0.0

    @property
    def view(self) -> ScanView | None:
        """The counts as the status of the node has them; None if no scan has ended."""
        if not self.at:
            return None
        return ScanView(
            began=self.began, at=self.at, looked=self.looked, orphaned=self.orphaned, handed_off=self.handed_off
        )


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
        self._max_attempts, self._outlives, self._watch = max_attempts, outlives, min(WATCH, pace[1])
        self._lives: set[tuple[NodeId, Boot]] = set()
        """The lives of nodes that the last scan of this node saw."""
        self.marked = OrphanCounts()
        self.rank = 0
        """How many live nodes stood before this one by name at the last check."""

    async def run(self) -> None:
        """Scan again and again, until cancelled."""
        await keep("the scan for orphaned calls", self._turn)

    async def _turn(self) -> None:
        await self._rest()
        try:
            self.marked = await self.walk()
        except StoreUnavailable as error:
            logger.info("orphaned calls were not looked for: %s", error)

    async def _rest(self) -> None:
        """Wait until the next scan is due. The node that scans waits less if one of the lives that it saw is over."""
        if self.rank or not self._lives:
            await asyncio.sleep(self._pause * min(max(1, self.rank), MAX_RANK))
            return
        for _ in range(max(1, round(self._pause / self._watch)) if self._watch else 1):
            await asyncio.sleep(self._watch)
            with contextlib.suppress(StoreUnavailable):
                if await self._store.count_nodes() < len(self._lives):
                    return

    async def _boots(self) -> dict[NodeId, Boot]:
        """The lives that have a lease."""
        return {node.node: node.boot for node in await self._store.nodes() if self._seals.holds(node)}

    async def walk(self) -> OrphanCounts:
        """Scan all records once and return what was found; empty if it is not this node's turn.

        Raises:
            StoreUnavailable: the store did not answer in time; the result of the last scan stays.
        """
        marked, cursor = OrphanCounts(began=self._heartbeat.clock.time()), ""
        lives: set[tuple[NodeId, Boot]] = set()
        for step in itertools.count():
            if step % STEPS_A_LOOK == 0:
                boots = await self._boots()
                me = self._heartbeat.lease.node
                self.rank = sum(node < me for node in boots)
                if self.rank or me not in boots:
                    self._lives = set()
                    return OrphanCounts()
                # One that goes while the scan runs is gone in the next scan: here only a part of its calls would count.
                lives |= set(boots.items())
            swept = await self._store.scan(cursor, PORTION)
            marked = self._add_found(marked, swept.found, lives)
            marked = marked._replace(unreadable=marked.unreadable + swept.unreadable)
            cursor = swept.cursor
            if not cursor:
                break
            await asyncio.sleep(self._step)
        self._lives = lives
        self._log(marked)
        return marked._replace(at=self._heartbeat.clock.time())

    def _log(self, marked: OrphanCounts) -> None:
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

    def is_stuck(self, item: Summary) -> bool:
        """Whether the call's handler is not entered again, since it was entered too often (docs/protocol.md, rule
        15)."""
        return item.state is RecordState.OPEN and item.attempts >= self._max_attempts

    def _add_found(self, marked: OrphanCounts, found: Iterable[Summary], lives: Lives) -> OrphanCounts:
        until = self._heartbeat.clock.time() + self._outlives
        counts: Counter[str] = Counter()
        named, boots = list(marked.calls), {boot for _, boot in lives}
        for item in found:
            # A call that has not asked, or whose token has expired, has no client that could come back.
            kind = self._kind(item, lives, boots) if item.round > 0 and item.expires > until else ""
            counts[kind] += 1
            if kind in _NAMED and len(named) < MAX_NAMED_CALLS:
                named.append(item)
        return marked._replace(
            looked=marked.looked + counts.total(),
            calls=tuple(named),
            **{kind: getattr(marked, kind) + count for kind, count in counts.items() if kind},
        )

    def _kind(self, item: Summary, lives: Lives, boots: Collection[str]) -> str:
        """The field of `OrphanCounts` that counts this call; empty if none does. The calls of a node that lives are in
        the node's own figures, those that it has handed off too: such a call has no owner, but the boot of its last."""
        if item.state is RecordState.RELEASED:
            return "" if item.boot in boots else "handed_off"
        if (item.owner, item.boot) in lives:
            return ""
        if self.is_stuck(item):
            return "stuck"
        if item.state is RecordState.OPEN:
            return "orphaned" if item.reentrant else "lost"
        return ""
