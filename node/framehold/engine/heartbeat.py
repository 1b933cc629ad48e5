"""The node's own lease: registered once, renewed every third of its TTL, replaced when it lapsed.

    1. register the name if it is free; if another process has it, wait for one TTL, then refuse to start
    2. renew; the lease window is open until the start of that renewal + TTL - margin
    3. a renewal gets LAPSED: the window closes at once, and a new incarnation registers in the place of the old one;
       frames of the old incarnation are verified before they run again (docs/protocol.md, rule 4)
    4. a renewal finds another boot under this node's name: this process must not go on; `lost` is set

A store that does not answer does not close the window at once: the window runs out at its time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass

from framehold_core.clock import Clock
from framehold_core.errors import NodeNameTaken, StoreUnavailable
from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_core.lease import Lease, NodeRecord, Renewal, proves_absences, window_until
from framehold_core.requests import Reply, Verdict
from framehold_router.fleet.membership import LIVE
from framehold_store.base import Store
from framehold_store.system_clock import measure

from .tasks import each, keep

logger = logging.getLogger(__name__)


_SILENT_PAUSE = 1.0
"""Most seconds between two heartbeats while the store doesn't answer."""
_VERDICTS = {Renewal.RENEWED: Verdict.OK, Renewal.LAPSED: Verdict.MISSING, Renewal.TAKEN: Verdict.CONFLICT}
"""The outcome of a heartbeat as the verdict of a write, for observers."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """The functions that a heartbeat calls. `load` returns the node's load as text for the lease; it takes the lease
    and the address. `on_beat` takes the operation (`register` or `renew`), the store's reply or its error, and the
    seconds that it took. `on_renewed` runs after each renewal."""

    load: Callable[[Lease, str], str] = lambda lease, address: ""
    on_beat: Callable[[str, Reply | StoreUnavailable, float], None] = lambda op, reply, seconds: None
    on_renewed: Callable[[], None] = lambda: None


class Heartbeat:
    """Keeps one node's lease in the store. `lease` is the lease as the node may rely on it now; `ttl` is in seconds."""

    def __init__(
        self, store: Store, clock: Clock, node: str, address: str, ttl: float, hooks: Hooks | None = None
    ) -> None:
        self.clock = clock
        self._hooks = hooks or Hooks()
        self.lease = Lease(NodeId(node), Incarnation(self._fresh()), Boot(self._fresh()), 0, -math.inf)
        self.claims_from = -math.inf
        """Before this time (seconds on the node's clock) the node claims no call: the store went back to an older state
        (docs/protocol.md, rule 7)."""
        self.missing_from = -math.inf
        """Before this time (seconds on the node's clock) a missing lease does not prove that its node is gone: leases
        ran out while the store was away, and each node registers again with its next heartbeat (docs/protocol.md,
        rule 5)."""
        self.doubts = 0
        """How often the store may have gone back to an older state: it was silent, or the lease lapsed
        (docs/protocol.md, rule 7)."""
        self.lost = asyncio.Event()
        """Set when another process runs under this node's name."""
        self.renewed_at: float | None = self.clock.now()
        """When the last successful heartbeat was sent, in seconds on the node's clock; before the first one, when this
        object was made."""
        self.address = address
        """The URL under which other nodes and routers reach this node."""
        self.state = LIVE
        self.codes = ""
        """The codes that this node serves, as `code_names` gives them."""
        self.trouble: StoreUnavailable | None = None
        """Why the last heartbeat failed; None if the store answered it."""
        self._store, self._ttl = store, ttl
        self._hurry = asyncio.Event()
        self._registered = False
        self._silence_logged = 0
        self._task: asyncio.Task[None] | None = None

    def believes_absences(self, own: NodeRecord | None, held: Lease) -> bool:
        """Whether a lease that is missing in a read proves that its node is gone. `own` is this node's lease in that
        read, `held` what `lease` was before it."""
        now = self.clock.now()
        if now < self.missing_from or self.renewed_at is None:
            return False
        return proves_absences(own, held, self.renewed_at, self._ttl, now)

    async def open(self) -> None:
        """Register if the store answers, and renew the lease from then on in a task.

        Raises:
            NodeNameTaken: another live process has this node's name, and kept it for longer than a lease lasts.
        """
        started, taken = self.clock.now(), False
        while await self._beat() is Renewal.TAKEN:
            taken = True
            if self.clock.now() > started + self._ttl + 1.0:
                raise NodeNameTaken(
                    f"another live process is registered as node {self.lease.node!r}; nothing was started; "
                    "give this one another FRAMEHOLD_NODE_ID, or stop the other (all workers of one server have one "
                    "id: run one worker a process)"
                )
            await asyncio.sleep(self._ttl / 5)
        if taken:
            waited = self.clock.now() - started
            logger.info("node %r waited %.1f s for the lease of its former life to run out", self.lease.node, waited)
        # If its task ended, the node would refuse all calls for good.
        running = keep("the heartbeat", self._turn, self.lost.is_set)
        self._task = asyncio.create_task(running, name="framehold-heartbeat")

    async def close(self) -> None:
        """Stop the heartbeat and delete the lease, so that other nodes need not wait until it runs out. A later `open`
        registers a new incarnation."""
        await each(self._stop, self._leave)
        self._registered, self._silence_logged = False, 0
        self.lease = self.lease._replace(incarnation=Incarnation(self._fresh()), beat=0)
        self.lost, self._hurry = asyncio.Event(), asyncio.Event()

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _leave(self) -> None:
        self.lease = self.lease._replace(until=-math.inf)
        if self._registered:
            try:
                await self._store.unregister(self._record())
            except StoreUnavailable:
                logger.info("the store did not hear that this node leaves; its lease will run out by itself")

    def announce(self, state: str) -> None:
        """Publish at once, with an extra renewal, that this node is `live` or `draining` now."""
        self.state = state
        self._hurry.set()

    async def _turn(self) -> None:
        """Wait for the time of the next heartbeat, and send it."""
        with contextlib.suppress(TimeoutError):
            # While the store does not answer, heartbeats are more frequent: the node registers soon after it is back.
            pause = self._ttl / 3 if self.missing_from < math.inf else min(self._ttl / 3, _SILENT_PAUSE)
            # Not `wait_for`: if an announcement comes in the same turn, it loses a cancellation, and `close` hangs.
            async with asyncio.timeout(pause):
                await self._hurry.wait()
        self._hurry.clear()
        if await self._beat() is Renewal.TAKEN:
            self.lost.set()
            logger.error("another process is registered as node %r: no call runs here any more", self.lease.node)

    async def _beat(self) -> Renewal | None:
        """One registration or renewal: RENEWED or TAKEN; None if the store did not answer."""
        started = self.clock.now()
        try:
            renewal, beat = await self._ask()
        except StoreUnavailable as error:
            self.trouble = error
            self._report(started, error)
            self._log_silence(error)
            self.missing_from = math.inf
            return None
        self._silence_logged, self.trouble = 0, None
        self._report(started, renewal)
        if self.missing_from == math.inf:
            self.missing_from = self.clock.now() + self._ttl
            self.doubts += 1
        if renewal is Renewal.RENEWED:
            self._registered, self.renewed_at = True, started
            self.lease = self.lease._replace(beat=beat, until=window_until(started, self._ttl))
            self._hooks.on_renewed()
            return renewal
        self.lease = self.lease._replace(until=-math.inf)
        return await self._reincarnate(beat) if renewal is Renewal.LAPSED else renewal

    def _report(self, started: float, outcome: Renewal | StoreUnavailable) -> None:
        reply = Reply(_VERDICTS[outcome]) if isinstance(outcome, Renewal) else outcome
        self._hooks.on_beat("renew" if self._registered else "register", reply, self.clock.now() - started)

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

    async def _ask(self) -> tuple[Renewal, int]:
        await measure(self.clock, self._store)
        if self._registered:
            return await self._store.renew(self._record(), self.lease.beat, self._ttl)
        return await self._store.register(self._record(), self._ttl), 0

    async def _reincarnate(self, beat: int) -> Renewal | None:
        """The lease lapsed: register a new incarnation. The store went back to an older state if `beat`, the beat in
        the store, is lower than the last one, or if the lease is gone (0) before it can have run out."""
        held_on = self.renewed_at is not None and self.clock.now() < self.renewed_at + self._ttl
        if beat < self.lease.beat and (beat or held_on):
            self.claims_from = self.clock.now() + self._ttl
        # The other leases may be gone for the same reason, whatever it was.
        self.missing_from = self.clock.now() + self._ttl
        self.doubts += 1
        logger.warning("the node lease lapsed; frames are verified with the store before they run again")
        self.lease = self.lease._replace(incarnation=Incarnation(self._fresh()), beat=0)
        self._registered = False
        return await self._beat()

    def _fresh(self) -> str:
        return self.clock.fresh(8).hex()

    def _record(self) -> NodeRecord:
        held = self.lease
        return NodeRecord(
            held.node,
            held.incarnation,
            held.boot,
            held.beat,
            self.address,
            self.state,
            self.codes,
            self._hooks.load(held, self.address),
            0.0,
        )


class Alone:
    """The lease of a process that shares no store with others. Its window is always open."""

    def __init__(self, node: str, clock: Clock) -> None:
        self.clock = clock
        incarnation, boot = clock.fresh(8).hex(), clock.fresh(8).hex()
        self.lease = Lease(NodeId(node), Incarnation(incarnation), Boot(boot), 1, math.inf)
        self.claims_from = self.missing_from = -math.inf
        self.doubts = 0
        self.lost = asyncio.Event()
        self.renewed_at: float | None = None
        self.trouble: StoreUnavailable | None = None
        self.address = ""
        self.state = LIVE

    def announce(self, state: str) -> None:
        """Set the state. No other process reads it."""
        self.state = state

    def believes_absences(self, own: NodeRecord | None, held: Lease) -> bool:
        """True: no other process uses this store."""
        return True

    async def open(self) -> None:
        """Do nothing: there is no lease to register."""

    async def close(self) -> None:
        """Do nothing: there is no lease to delete."""
