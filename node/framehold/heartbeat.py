"""The node's own lease: registered once, renewed every third of its TTL, replaced when it lapsed.

    1. register, set if absent; a name that is taken is waited out for one TTL, then refused
    2. renew; the window opens until the start of that renewal + TTL - margin
    3. renewal answers LAPSED: the window closes at once, what is left of the old lease is deleted, and a new
       incarnation registers; frames of the old one are verified before they run again (PROTOCOL rule 4)
    4. after the start, another boot stands under our name: this process must not go on; `lost` is set

A store that does not answer closes nothing by itself: the window runs out on its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from framehold_core.errors import NodeNameTaken, StoreUnavailable
from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_core.lease import Lease, NodeRecord, Renewal, window_until
from framehold_core.requests import Reply, Verdict
from framehold_router.membership import LIVE
from framehold_store.base import Store

from . import clock

if TYPE_CHECKING:
    from .watch import Watches

logger = logging.getLogger(__name__)


_SILENT = 1.0
"""Seconds at most between two heartbeats while the store doesn't answer."""
_VERDICTS = {Renewal.RENEWED: Verdict.OK, Renewal.LAPSED: Verdict.MISSING, Renewal.TAKEN: Verdict.CONFLICT}
"""What came of a heartbeat, in the words in which writes are told of."""


def _fresh() -> str:
    return os.urandom(8).hex()


class Heartbeat:
    """Keeps one node's lease in the store. `lease` is what the node may rely on now."""

    def __init__(self, store: Store, node: str, address: str, ttl: float) -> None:
        self.lease = Lease(NodeId(node), Incarnation(_fresh()), Boot(_fresh()), 0, -math.inf)
        self.claims_from = -math.inf
        """Before this time the node claims nothing: the store was seen to have gone back (rule 7)."""
        self.missing_from = -math.inf
        """Before this time a lease that is missing says nothing of its node: the store was away, leases ran out
        meanwhile, and each node registers anew when it next looks (rule 5)."""
        self.lost = asyncio.Event()
        """Set when another process runs under this node's name."""
        self.on_renewed: Callable[[], None] = lambda: None
        self.stats: Callable[[], str] = str
        """What the lease says of the node's load."""
        self.watches: Watches | None = None
        """Who is told of heartbeats."""
        self.renewed_at: float | None = clock.now()
        """When the last one that was answered was sent; until the first, when this was made."""
        self.address = address
        """Where other nodes and routers reach this one."""
        self.state = LIVE
        self._store, self._ttl = store, ttl
        self._hurry = asyncio.Event()
        self._registered = False
        self._told = 0
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Register, if the store answers, and keep the lease from then on.

        Raises:
            NodeNameTaken: another live process has this node's name, and kept it for longer than a lease lasts.
        """
        started, taken = clock.now(), False
        while await self._beat() is Renewal.TAKEN:
            taken = True
            if clock.now() > started + self._ttl + 1.0:
                raise NodeNameTaken(
                    f"another live process is registered as node {self.lease.node!r}; nothing was started; "
                    "give this one another FRAMEHOLD_NODE_ID, or stop the other"
                )
            await asyncio.sleep(self._ttl / 5)
        if taken:
            waited = clock.now() - started
            logger.info("node %r waited %.1f s for the lease of its former life to run out", self.lease.node, waited)
        self._task = asyncio.create_task(self._run(), name="framehold-heartbeat")

    async def close(self) -> None:
        """Stop, and give the lease back so that nobody has to wait for it to run out."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self.lease = self.lease._replace(until=-math.inf)
        if self._registered:
            try:
                await self._store.leave(self._record())
            except StoreUnavailable:
                logger.info("the store did not hear that this node leaves; its lease will run out by itself")

    def announce(self, state: str) -> None:
        """Say at once, with a renewal of its own, that this node is `live` or `draining` now."""
        self.state = state
        self._hurry.set()

    async def _run(self) -> None:
        while not self.lost.is_set():
            with contextlib.suppress(TimeoutError):
                # Where the store is silent nothing is renewed in time: whoever is back first is heard first.
                pause = self._ttl / 3 if self.missing_from < math.inf else min(self._ttl / 3, _SILENT)
                # Not by wait_for: in the turn of an announcement it would lose a cancellation, and `close` hang.
                async with asyncio.timeout(pause):
                    await self._hurry.wait()
            self._hurry.clear()
            try:
                renewal = await self._beat()
            except Exception:
                # Without a heartbeat the node would refuse everything for good, and say nothing.
                logger.exception("a bug in what follows a renewal; the next renewal is tried as ever")
                continue
            if renewal is Renewal.TAKEN:
                self.lost.set()
                logger.error("another process is registered as node %r: no call runs here any more", self.lease.node)

    async def _beat(self) -> Renewal | None:
        """One registration or renewal: RENEWED or TAKEN, None where the store did not answer."""
        started = clock.now()
        try:
            renewal, beat = await self._ask()
        except StoreUnavailable as error:
            self._say(started, error)
            self._tell_silence(error)
            self.missing_from = math.inf
            return None
        self._told = 0
        self._say(started, renewal)
        if self.missing_from == math.inf:
            self.missing_from = clock.now() + self._ttl
        if renewal is Renewal.RENEWED:
            self._registered, self.renewed_at = True, started
            self.lease = self.lease._replace(beat=beat, until=window_until(started, self._ttl))
            self.on_renewed()
            return renewal
        self.lease = self.lease._replace(until=-math.inf)
        return await self._reincarnate(beat) if renewal is Renewal.LAPSED else renewal

    def _say(self, started: float, told: Renewal | StoreUnavailable) -> None:
        """Tell who watches what came of a heartbeat."""
        if self.watches is not None:
            reply = Reply(_VERDICTS[told]) if isinstance(told, Renewal) else told
            self.watches.asked_store("renew" if self._registered else "register", None, reply, clock.now() - started)
            self.watches.renewed(told is Renewal.RENEWED)

    def _tell_silence(self, error: StoreUnavailable) -> None:
        """One line when the store falls silent, one when the lease is over; no line for each heartbeat."""
        left = self.lease.until - clock.now()
        if left > 0 and not self._told:
            self._told = 1
            logger.warning("the node lease is not renewed (%s); parked calls go on for %.1f s more", error, left)
        elif left <= 0 and self._told < 2:
            self._told = 2
            logger.warning(
                "this node has no valid lease (%s); it answers 503 until the store is back; parked frames stay", error
            )

    async def _ask(self) -> tuple[Renewal, int]:
        if self._registered:
            return await self._store.renew(self._record(), self.lease.beat, self._ttl)
        return await self._store.register(self._record(), self._ttl), 0

    async def _reincarnate(self, beat: int) -> Renewal | None:
        """The lease lapsed: take a new incarnation. A beat that went down means that the store went back.

        If the old lease can't be deleted nothing changes: the next renewal finds the lapse again.
        """
        if 0 < beat < self.lease.beat:
            self.claims_from = clock.now() + self._ttl
        logger.warning("the node lease lapsed; frames are verified with the store before they run again")
        try:
            await self._store.leave(self._record())
        except StoreUnavailable as error:
            logger.warning("what is left of the lapsed lease was not deleted, it is tried again: %s", error)
            return None
        self.lease = self.lease._replace(inc=Incarnation(_fresh()), beat=0)
        self._registered = False
        return await self._beat()

    def _record(self) -> NodeRecord:
        held = self.lease
        return NodeRecord(held.node, held.inc, held.boot, held.beat, self.address, self.state, "", self.stats(), 0.0)


class Alone:
    """The lease of a process that has no store to lose: always open."""

    def __init__(self, node: str) -> None:
        self.lease = Lease(NodeId(node), Incarnation(_fresh()), Boot(_fresh()), 1, math.inf)
        self.claims_from = self.missing_from = -math.inf
        self.lost = asyncio.Event()
        self.on_renewed: Callable[[], None] = lambda: None
        self.stats: Callable[[], str] = str
        self.renewed_at: float | None = None
        self.watches: Watches | None = None
        self.address = ""
        self.state = LIVE

    def announce(self, state: str) -> None:
        """Nobody else reads it."""
        self.state = state

    async def open(self) -> None:
        """Nothing to register."""

    async def close(self) -> None:
        """Nothing to give back."""
