"""Writes and reads of a call: effects become requests to the store, and its replies become events.

Values are sealed for their place before they leave this node, and opened only here. A write that is sent again is the
same bytes, so that the store can tell that it was already applied.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection
from functools import partial

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core import journal, writes
from framehold_core.call import Phase
from framehold_core.effects import Op
from framehold_core.errors import JournalError, SealError, StoreUnavailable
from framehold_core.ids import Boot, CallId, NodeId, prefix
from framehold_core.lease import Lease, NodeRecord
from framehold_core.requests import Evidence, Head, Read, Record, RecordState, Reply, Stored, Verdict
from framehold_router.internal import Trust
from framehold_router.membership import Member

from . import clock
from .absences import Absences
from .config import Settings
from .gate import Gate
from .logs import about
from .passing import Passing
from .payloads import Payloads
from .slots import Answer, Ended, Questions, Slot
from .tasks import Tasks
from .watch import Watches

logger = logging.getLogger(__name__)


SKEW = 60.0
"""Seconds that clocks may differ by: a record outlives its tokens by this much, and by the longest round."""
KEPT = 32 * 1024
"""Bytes of an outcome that a tombstone keeps; of a larger one it keeps the digest."""
_LOST = (
    "call %s of %r is lost: the process that ran it is gone, and its handler is not marked @framehold.reentrant; it "
    "was not entered again, and its client is told so"
)
_UNANSWERED = (
    "call %s: the store did not answer a %s: its frame, if it has one, stays and is written when the store is back; "
    "its client is told to try again (%s)"
)
_UNREADABLE = "call %s: it is not continued here, and its client is told so: %s"
_TIMED = (Op.PARK, Op.FINISH)
"""The writes that say for how long their round ran."""
_WHOLE, _DIGEST = b"=", b"#"


class Ledger:
    """Performs a runtime's writes and lookups. `feed` takes what came of them."""

    def __init__(
        self,
        settings: Settings,
        payloads: Payloads,
        tasks: Tasks,
        feed: Callable[[Slot, ev.Event], None],
        watches: Watches,
    ) -> None:
        self._settings, self.payloads, self._tasks, self._feed = settings, payloads, tasks, feed
        self._watches = watches
        self.gate = Gate()
        self._absences = Absences(settings.lease_ttl)
        self.heir: Callable[[CallId], tuple[NodeId, str] | None] = lambda call: None
        """Who carries on, instead of this node, a call that nobody holds; None where this node does."""
        self.member: Callable[[NodeRecord], Member] = lambda lease: Member.of(lease, Trust(()))
        """What a fleet makes of a lease: nothing is passed on to one that it doesn't believe."""
        self.addresses: dict[NodeId, str] = {}
        """Where the other nodes are reached, as the last lookup read it."""

    def write(self, slot: Slot, write: fx.Write) -> None:
        """Send one write of a call."""
        terms = self._terms(slot)
        if slot.packed is None or slot.packed[0] is not write:
            slot.packed = (write, self._pack(slot, write))
        if write.op is Op.PARK:
            slot.asking = _questions(slot, write)
        packed = slot.packed[1]
        now = clock.now()
        ran = _ran(slot, now) if write.op in _TIMED else 0.0
        request = writes.request(slot.call, write, packed, terms, slot.log, ran)
        slot.home.records.submit(request, partial(self._wrote, slot, write, packed, now))

    def _pack(self, slot: Slot, write: fx.Write) -> writes.Packed:
        call, seal = slot.call, self.payloads.sealer.seal
        outcome = b""
        if write.op is Op.FINISH:
            data = slot.entrance.dump(write.outcome)
            data = _WHOLE + data if len(data) <= KEPT else _DIGEST + journal.digest(data).encode()
            outcome = seal("outcome", data, call=call.id, n=call.n, kind="outcome", key="")
        return writes.pack(call, write, partial(self.payloads.sealed, call.id), outcome)

    def _terms(self, slot: Slot) -> writes.Terms:
        if slot.head is None:
            boot = slot.home.beat.lease.boot
            slot.head = Head(boot=boot, reentrant=slot.entrance.reentrant, **slot.entrance.describe())
        tombstone_ttl = slot.call.ttl + SKEW
        return writes.Terms(slot.head, tombstone_ttl + self._settings.max_round, tombstone_ttl)

    def _wrote(
        self, slot: Slot, write: fx.Write, packed: writes.Packed, began: float, reply: Reply | StoreUnavailable
    ) -> None:
        if not isinstance(slot.home.records, Passing):
            self._watches.asked_store(write.op.value, slot, reply, clock.now() - began)
        if slot.call.flight is not write:
            return
        if isinstance(reply, StoreUnavailable):
            logger.warning(_UNANSWERED, prefix(slot.call.id), write.op.value, reply, extra=about(slot))
            self._feed(slot, ev.StoreDown(slot.may_run()))
            return
        try:
            event = writes.event(slot.call, write, packed, reply, slot.home.beat.lease, clock.now())
        except JournalError as error:
            logger.error(_UNREADABLE, prefix(slot.call.id), error, extra=about(slot))
            event = ev.Unreadable(str(error))
        if isinstance(event, ev.Acked):
            slot.learn(packed.entries)
            slot.packed = None
            if write.op is Op.PARK:
                slot.questions = slot.asking
                slot.shown += write.asks
        elif isinstance(event, ev.Claimed):
            slot.claimed(event.stored.record)
            slot.learn(event.stored.journal)
        elif isinstance(event, ev.Refused):
            if event.verdict is Verdict.LOST:
                logger.warning(_LOST, prefix(slot.call.id), slot.tool, extra=about(slot))
            else:
                told = (prefix(slot.call.id), write.op.value, event.verdict.value)
                logger.info("call %s: the store refused a %s: %s", *told, extra=about(slot))
        self._feed(slot, event)

    def look(self, slot: Slot, effect: fx.Lookup) -> None:
        """Read the record for retries that found no frame."""
        self._tasks.spawn(self._look(slot))

    async def _look(self, slot: Slot) -> None:
        try:
            event = await self._told(slot)
            if slot.call.phase is Phase.LOOKING:
                self._feed(slot, event)
        finally:
            self.gate.left(slot)

    async def _told(self, slot: Slot) -> ev.Event:
        """What comes of a lookup, whatever it is."""
        try:
            if not isinstance(slot.home.records, Passing):
                # What is in the token already is not read, and its node is none that died.
                await self.gate.enter(slot)
            return await self._found(slot)
        except StoreUnavailable as error:
            logger.warning(_UNANSWERED, prefix(slot.call.id), "read", error, extra=about(slot))
            return ev.StoreDown(slot.may_run())
        except JournalError as error:
            logger.error(_UNREADABLE, prefix(slot.call.id), error, extra=about(slot))
            return ev.Unreadable(str(error))
        except Exception:
            told = "call %s: its record could not be read; its client is told to try again"
            logger.exception(told, prefix(slot.call.id), extra=about(slot))
            return ev.StoreDown(False)

    async def _read(self, slot: Slot) -> Reply:
        began, told = clock.now(), self._watches.asked_store
        try:
            reply = await slot.home.records.run(Read(slot.call.id))
        except StoreUnavailable as error:
            told("read", slot, error, clock.now() - began)
            raise
        if not isinstance(slot.home.records, Passing):
            told("read", slot, reply, clock.now() - began)
        return reply

    async def _found(self, slot: Slot) -> ev.Event:
        home, slot.heir = slot.home, None
        reply = await self._read(slot)
        nodes = await home.records.nodes()
        me = home.beat.lease
        self.addresses = {node.node: node.address for node in nodes if self.member(node).address is not None}
        elsewhere = frozenset(node.node for node in nodes if node.node != me.node)
        self._look_for_healers(slot, reply.stored, {me.node, *elsewhere})
        if reply.stored is None:
            told = "call %s: no record of it that is whole: it expired, or the store lost it"
            logger.info(told, prefix(slot.call.id), extra=about(slot))
            return ev.Found(None, (), None, elsewhere)
        if clock.now() < home.beat.claims_from:
            raise StoreUnavailable("the store went back lately; nothing is claimed until its leases are told apart")
        record = reply.stored.record
        evidence = _evidence(record, {node.node: node.boot for node in nodes}, me)
        if evidence is Evidence.GONE and clock.now() < home.beat.missing_from:
            raise StoreUnavailable("the store was away lately; its owner may only not have come back to it yet")
        if evidence in (Evidence.RELEASED, Evidence.GONE) and (heir := self.heir(slot.call.id)) is not None:
            slot.heir, self.addresses[heir[0]] = heir
            return ev.Found(reply.stored, (), None, elsewhere)
        # Nobody's but a former process's, even one of this node's name: its frame went with it.
        slot.orphaned = evidence is Evidence.GONE or (evidence is Evidence.OWNER and record.head.boot != me.boot)
        if evidence is None:
            # Whoever lives elsewhere reads its own journal; it may be of a newer release than this node.
            return ev.Found(reply.stored, (), None, elsewhere)
        if not isinstance(home.records, Passing):
            await self.gate.weigh(slot, sum(map(len, reply.stored.journal)))
        entries = journal.decode_all(reply.stored.journal)
        return ev.Found(reply.stored, entries, evidence, elsewhere)

    def _look_for_healers(self, slot: Slot, stored: Stored | None, alive: Collection[NodeId]) -> None:
        """Raise where the store has lost what a token names, and the node of that token may yet come back to it: a live
        frame there would heal the record (rule 7)."""
        if slot.home.beat.lease.until == math.inf:
            # Nobody's lease can be lost here.
            return
        at = (0, 0) if stored is None else (stored.record.epoch, stored.record.round)
        now = clock.now()
        beyond = [item for item in slot.call.held if item.epoch > at[0] or item.round > at[1]]
        if not all(self._absences.sure(item.node, alive, now) for item in beyond):
            raise StoreUnavailable(
                "the store went back, and the node that could mend it may not have come back to it yet"
            )

    def opened(self, slot: Slot, outcome: fx.Outcome) -> Answer:
        """A tombstone's outcome as a reply."""
        call = slot.call
        refusal = fx.Refusal(fx.Reason.LOST, detail="its outcome can't be opened")
        try:
            data = self.payloads.sealer.open(
                "outcome", outcome.sealed, call=call.id, n=outcome.n, kind="outcome", key=""
            )
        except SealError as error:
            told = "call %s: its outcome can't be opened, and its client is told that it is lost: %s"
            logger.error(told, prefix(call.id), error, extra=about(slot))
            return refusal
        if data[:1] == _WHOLE:
            return Ended(slot.entrance.load(data[1:]))
        return fx.Refusal(fx.Reason.ALREADY_ANSWERED, detail="it finished; its result was too large to be kept")


def _ran(slot: Slot, now: float) -> float:
    """For how many seconds this round has run at `now`: since the first request came that waits for it."""
    waiting = [slot.arrivals[item.waiter].came for item in slot.call.waiting if item.waiter in slot.arrivals]
    return now - min(waiting, default=now)


def _questions(slot: Slot, write: fx.Write) -> Questions:
    """The wire form of the questions that a PARK asks: new ones from the frame, the rest as they were. A write that is
    sent again asks the same, though its handler may have stopped waiting for some of it, or asks another by its key."""
    pending = {} if slot.frame is None else slot.frame.pending
    known = dict((*slot.questions, *slot.asking))
    for draft in write.asks:
        ask = pending.get(draft.key)
        if ask is not None and ask.question.fp == draft.fp:
            known[draft.key] = ask.question.wire
    return tuple((draft.key, known[draft.key]) for draft in write.asks)


def _evidence(record: Record, boots: dict[NodeId, Boot], me: Lease) -> Evidence | None:
    """Why this node may claim the call; None while its owner lives elsewhere (rules 4 and 5)."""
    if record.state is RecordState.RELEASED:
        return Evidence.RELEASED
    if record.owner == me.node:
        return Evidence.OWNER
    alive = boots.get(NodeId(record.owner)) == record.head.boot
    return None if alive else Evidence.GONE
