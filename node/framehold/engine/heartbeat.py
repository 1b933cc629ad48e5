"""The node's own lease: registered once, renewed every third of its TTL, replaced when it lapsed.

    1. register the name if it is free. If a lease stands there, wait until it ends; refuse to start if it is renewed
    2. renew; the lease window is open until the start of that renewal + TTL - margin
    3. a renewal gets LAPSED: the window closes at once, and a new incarnation registers in the place of the old one;
       frames of the old incarnation are verified before they run again (docs/protocol.md, rule 4)
    4. a renewal finds another boot under this node's name: this process must not go on; `lost` is set. Only a lease
       whose seal holds, that has not ended, and that was written after this process registered, says so. Anything else
       there was written by somebody without a key, and is replaced as in 3

The node counts its beats, and says when its lease ends, on the store's clock: each reply has the store's time. A store
that does not answer does not close the window at once: the window runs out at its time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable

from framehold_core.clock import Clock
from framehold_core.errors import NodeNameTaken, StoreUnavailable
from framehold_core.ids import Boot
from framehold_core.lease import (
    LeaseFinding,
    LeaseReply,
    NodeRecord,
    Renewal,
    Tenure,
    boot_of,
)
from framehold_core.requests import Reply, Verdict
from framehold_core.value import replace
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.members.membership import LIVE
from framehold_fleet.telemetry.log_bursts import LogBursts
from framehold_store.base import Store

from .round_trips import RoundTrips
from .tasks import each, keep

logger = logging.getLogger(__name__)


_VERDICTS = {Renewal.RENEWED: Verdict.OK, Renewal.LAPSED: Verdict.MISSING, Renewal.TAKEN: Verdict.CONFLICT}
"""The outcome of a heartbeat as the verdict of a write, for observers."""
_FOREIGN = (
    "somebody else has written in the place of the lease of this node, without a key of this fleet, or an old lease "
    "again; it is replaced; check who else writes to this store"
)


class Heartbeat(Tenure):
    """Keeps one node's lease in the store. `ttl` is in seconds. `seals` seals it, and says which other leases are
    believed."""

    def __init__(self, store: Store, clock: Clock, node: str, address: str, ttl: float, seals: LeaseSeal) -> None:
        boot = boot_of(clock.time(), clock.fresh(8))
        super().__init__(node, boot, ttl, clock.now(), lambda: clock.fresh(8).hex())
        self.clock = clock
        self.lost = asyncio.Event()
        """Set when another process runs under this node's name."""
        self.address = address
        """The URL under which other nodes and routers reach this node."""
        self.state = LIVE
        self.codes = ""
        """The codes that this node serves, as `code_names` gives them."""
        self.trouble: StoreUnavailable | None = None
        """Why the last heartbeat failed; None if the store answered it."""
        self.round_trips = RoundTrips(ttl)
        self.load: Callable[[], str] = lambda: ""
        """Returns the node's load as text for the lease."""
        self.on_beat: Callable[[str, Reply | StoreUnavailable, float], None] = lambda op, reply, seconds: None
        """Takes the operation (`register` or `renew`), the store's reply or its error, and the seconds that it took."""
        self.on_renewed: Callable[[], None] = lambda: None
        """Runs after each renewal."""
        self._store, self._seals = store, seals
        self._bursts = LogBursts(logger)
        self._hurry = asyncio.Event()
        self._silence_logged = 0
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Register if the store answers, and renew the lease from then on in a task.

        Raises:
            NodeNameTaken: another live process has this node's name: it renewed its lease while this one waited.
        """
        while (finding := await self._beat()) in (LeaseFinding.HELD, LeaseFinding.TAKEN):
            if finding is LeaseFinding.TAKEN:
                raise NodeNameTaken(
                    f"another live process is registered as node {self.lease.node!r}; nothing was started; "
                    "give this one another FRAMEHOLD_NODE_ID, or stop the other (all workers of one server have one "
                    "id: run one worker a process)"
                )
            await asyncio.sleep(self.ttl / 5)
        # If its task ended, the node would refuse all calls for good.
        running = keep("the heartbeat", self._turn, self.lost.is_set)
        self._task = asyncio.create_task(running, name="framehold-heartbeat")

    async def close(self) -> None:
        """Stop the heartbeat and delete the lease, so that other nodes need not wait until it runs out. A later `open`
        registers a new incarnation."""
        await each(self._stop, self._leave)
        self._silence_logged, self.since, self.found = 0, None, b""
        self.begin_anew()
        self.lost, self._hurry = asyncio.Event(), asyncio.Event()

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _leave(self) -> None:
        self.lease = replace(self.lease, until=-math.inf)
        if self.is_registered:
            try:
                await self._store.unregister(self._record(self.clock.time()))
            except StoreUnavailable:
                logger.info("the store did not hear that this node leaves; its lease will run out by itself")

    def announce(self, state: str) -> None:
        """Publish at once, with an extra renewal, that this node is `live` or `draining` now."""
        self.state = state
        self._hurry.set()

    async def _turn(self) -> None:
        """Wait for the time of the next heartbeat, and send it."""
        with contextlib.suppress(TimeoutError):
            # Not `wait_for`: if an announcement comes in the same turn, it loses a cancellation, and `close` hangs.
            async with asyncio.timeout(self.pause):
                await self._hurry.wait()
        self._hurry.clear()
        if await self._beat() is LeaseFinding.TAKEN:
            self.lost.set()
            logger.error("another process is registered as node %r: no call runs here any more", self.lease.node)

    async def _beat(self, over: bytes = b"") -> LeaseFinding | None:
        """One registration or renewal, and what it has found; None if the store did not answer. `over` is what may be
        replaced there."""
        started = self.clock.now()
        try:
            wanted, reply = await self._ask(over)
        except StoreUnavailable as error:
            self.trouble = error
            self._report(started, error)
            self._log_silence(error)
            self.silent()
            return None
        self._silence_logged, self.trouble = 0, None
        self._report(started, reply.result)
        was_registered, since, stored = self.is_registered, self.since, reply.stored
        is_sealed = stored is not None and self._seals.holds(stored)
        heard = self.heard(wanted, reply, is_sealed, over, started, self.clock.now())
        finding = heard.finding
        if finding is LeaseFinding.RENEWED:
            self.on_renewed()
        elif finding is LeaseFinding.HELD and since is None:
            logger.info("node %r waits for the lease of its former life to run out", self.lease.node)
        elif finding not in (LeaseFinding.HELD, LeaseFinding.TAKEN):
            self._log_lapse(finding, was_registered)
        return finding if heard.over is None else await self._beat(heard.over)

    def _log_lapse(self, finding: LeaseFinding, was_registered: bool) -> None:
        if finding is LeaseFinding.FOREIGN:
            self._bursts.warning(_FOREIGN, extra={"node": self.lease.node})
        if was_registered:
            logger.warning("the node lease lapsed; frames are verified with the store before they run again")

    def _report(self, started: float, outcome: Renewal | StoreUnavailable) -> None:
        reply = Reply(_VERDICTS[outcome]) if isinstance(outcome, Renewal) else outcome
        self.on_beat("renew" if self.is_registered else "register", reply, self.clock.now() - started)

    def _log_silence(self, error: StoreUnavailable) -> None:
        """Log one line when the store stops answering, and one when the lease has run out; not one for each
        heartbeat."""
        left = self.lease.until - self.clock.now()
        if left > 0 and not self._silence_logged:
            self._silence_logged = 1
            logger.warning("the node lease is not renewed (%s); parked calls go on for %.1f s more", error, left)
        elif left <= 0 and self._silence_logged < 2:
            self._silence_logged = 2
            logger.warning(
                "this node has no valid lease (%s); it answers 503 until the store is back; parked frames stay", error
            )

    async def _ask(self, over: bytes) -> tuple[NodeRecord, LeaseReply]:
        """Send a lease; once more if the store says that it would end astray, since its clock is measured then. Returns
        the lease as it was sent last, and the reply.

        Raises:
            StoreUnavailable: no answer came in time, or the store's clock can't be measured.
        """
        at = self.clock.time()
        for _ in range(2):
            wanted, sent = self._record(at), self.clock.now()
            if self.is_registered:
                reply = await self._store.renew(wanted, self.lease.beat, self.ttl)
            else:
                reply = await self._store.register(wanted, self.ttl, over)
            received = self.clock.now()
            self.clock.measured(reply.at, sent, received)
            self.round_trips.add(received - sent)
            if reply.result is not Renewal.ASTRAY:
                return wanted, reply
            # This time has come there, whatever the error of the measure is.
            at = reply.at
        raise StoreUnavailable("its clock moves, or its replies take longer than a lease lasts; nothing was written")

    def _record(self, at: float) -> NodeRecord:
        """The lease of this node, sealed, as it is written at `at` on the store's clock."""
        return self._seals.seal(self.wanted(at, self.address, self.state, self.codes, self.load()))


class Alone(Tenure):
    """The lease of a process that shares no store with others. Its window is always open."""

    def __init__(self, node: str, clock: Clock) -> None:
        super().__init__(node, Boot(clock.fresh(8).hex()), math.inf, 0.0, lambda: clock.fresh(8).hex())
        self.clock = clock
        self.lease = replace(self.lease, beat=1, until=math.inf)
        self.renewed_at, self.is_registered = None, True
        self.lost = asyncio.Event()
        self.trouble: StoreUnavailable | None = None
        self.round_trips = RoundTrips(math.inf)
        self.address = ""
        self.state = LIVE

    def announce(self, state: str) -> None:
        """Set the state. No other process reads it."""
        self.state = state

    async def open(self) -> None:
        """Do nothing: there is no lease to register."""

    async def close(self) -> None:
        """Do nothing: there is no lease to delete."""
