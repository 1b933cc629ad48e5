"""Writes and reads call records: effects become requests to the store, and its replies become events.

Values are sealed for their place before they leave this node, and opened only here. A record that a handler may be
entered by is read here alone, and counts as missing if this fleet has not sealed its head (docs/protocol.md, rule 22).
A write that is sent again has the
same bytes, so that the store recognizes a write that it has already applied.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from functools import partial
from typing import NamedTuple

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core import journal, writes
from framehold_core.call import Phase
from framehold_core.effects import Op
from framehold_core.errors import JournalError, SealError, StoreUnavailable
from framehold_core.ids import NodeId, prefix
from framehold_core.lease import Lease, NodeRecord, is_alone
from framehold_core.ownership import Death, Ownership, Sight, Wait
from framehold_core.pauses import Pause
from framehold_core.requests import Head, Read, Reply, Stored, Verdict
from framehold_core.value import replace
from framehold_fleet.members.membership import STRANGE
from framehold_fleet.telemetry.log_bursts import LogBursts
from framehold_store.base import Store
from framehold_store.link import exhausted

from ..code.keeper import CodeKeeper
from ..config import Settings
from ..frame.payloads import Payloads
from .doors.door import Door
from .drain import NodeDrain
from .peers import Peers
from .rechecks import Rechecks
from .replies import Answer, Ended, Questions
from .shared import Shared
from .slot import Slot
from .takeover_gate import TakeoverGate
from .token_claims import Claims
from .token_record import TokenRecord

logger = logging.getLogger(__name__)


SKEW = 60.0
"""Seconds by which the clocks of a store's servers may differ. A record is kept for this long, and for the longest
round, after its tokens have expired."""
MAX_OUTCOME_BYTES = 32 * 1024
"""Bytes of the largest outcome that a tombstone keeps. Of a larger one it keeps only the digest."""
_LOST = (
    "call %s of %r is lost: the process that ran it is gone, and its handler is not marked @framehold.reentrant; it "
    "was not entered again, and its client is told so"
)
_FORGOTTEN = (
    "call %s of %r: the store has no record of it that is whole, though its token is valid; its client is told that it "
    "is lost, unless the node that the token names restores it"
)
_ENTERED = "the frame that this request had brought back was taken from this node"
_ALTERED = (
    "call %s: the head of its record was not written by this fleet, or was altered: it counts as missing, and its code "
    "is not entered; check who else writes this store"
)
_UNKNOWN_KEY = (
    "the head of its record is sealed, and its key is not among FRAMEHOLD_KEYS; keep old keys there until the last "
    "call that was begun under them has ended"
)
_UNSENT = "call %s: its %s was not sent; it is sent again with the next renewal of the node lease"
_UNREAD = "call %s: its record could not be read; its client is told to try again"
_UNANSWERED = (
    "call %s: the store did not take a %s: its client is told to try again; if it has a token, the frame stays and is "
    "written when the store is back (%s)"
)
_REFUSED = "call %s: the store refused a %s: %s"
_UNREADABLE = "call %s: it is not continued here, and its client is told so: %s"
_GONE = (Verdict.FENCED, Verdict.LOST)
"""The verdicts after which this node has no part in a call."""
_TIMED_OPS = (Op.PARK, Op.FINISH)
"""The writes that report for how long their round ran."""
_KEEP_OPS = (Op.PARK, Op.CLAIM)
"""The writes after which a client gets a token that lasts longer than those before: the code is kept as long."""
WHOLE, DIGEST = b"=", b"#"


class _LeasesSeen(NamedTuple):
    """What the leases `found` say: those that are believed, the nodes whose lease is not, and the addresses of the
    others."""

    found: Collection[NodeRecord]
    believed: Mapping[NodeId, NodeRecord]
    doubtful: frozenset[NodeId]
    addresses: Mapping[NodeId, str]


class CallRecords:
    """Reads and writes call records for one node. The replies of the store are fed to the loop as events.

    `keeper` keeps the code of handlers. `drain` names the node that carries a call on instead of this one. `peers`
    checks the leases of nodes. `door` counts the deaths and the survivals of a tool's calls, and pauses it. `rechecks`
    compares what this node holds with a store that went back to an older state."""

    def __init__(
        self,
        settings: Settings,
        shared: Shared,
        payloads: Payloads,
        keeper: CodeKeeper,
        drain: NodeDrain,
        peers: Peers,
        door: Door,
        rechecks: Rechecks,
    ) -> None:
        self._settings, self.payloads, self._counts, self.keeper = settings, payloads, shared.counts, keeper
        self._tasks, self._observers, self._feed = shared.tasks, shared.observers, shared.loop.feed
        self._table, self._journals, self._clock = shared.table, shared.table.journals, shared.clock
        self._drain, self._peers, self._door, self._rechecks = drain, peers, door, rechecks
        self.bursts = LogBursts(logger)
        """The lines that each call would cause while the store does not answer, or when a node dies."""
        self.gate = TakeoverGate(shared.clock)
        self._ownership = Ownership(settings.lease_ttl)
        self._seen = _LeasesSeen((), {}, frozenset(), {})
        self.addresses: dict[NodeId, str] = {}
        """The addresses of the nodes, as the last lookup read them."""

    def write(self, slot: Slot, write: fx.Write) -> None:
        """Send one write of a call."""
        terms = self._terms(slot)
        # The head names no code for a handler that is not re-entrant, and another one where that was not to be had.
        code = terms.head.code
        if write.op in _KEEP_OPS and code == slot.handler.code and self.keeper.is_due(code, terms.record_ttl):
            self._tasks.carry(self._keep_and_write(slot, write, terms), partial(self._unsent, slot, write))
        else:
            self._send(slot, write, terms)

    async def _keep_and_write(self, slot: Slot, write: fx.Write, terms: writes.Terms) -> None:
        """Send a write that names code which the store does not keep yet."""
        await self.keeper.keep(slot.handler, terms.record_ttl)
        if slot.call.outbox.in_flight is write:
            self._send(slot, write, terms)

    def store_lost(self) -> None:
        """The store has lost what it had: have it keep the code of the frames here again."""
        self.keeper.lost()
        longest: dict[str, Slot] = {}
        for slot in sorted(self._table, key=lambda slot: slot.call.ttl):
            if slot.frame is not None and slot.handler.reentrant:
                longest[slot.handler.code] = slot
        for code, slot in longest.items():
            if self.keeper.is_due(code, lifetime := self._terms(slot).record_ttl):
                self._tasks.spawn(self.keeper.keep(slot.handler, lifetime))

    def _unsent(self, slot: Slot, write: fx.Write, error: BaseException) -> None:
        """A write was not sent. It counts as one that the store left unanswered: it is sent again with the next
        renewal."""
        about = (prefix(slot.call.id), write.op.value)
        self.bursts.line(logging.ERROR, _UNSENT, *about, extra=slot.log_fields, error=error)
        if slot.call.outbox.in_flight is write:
            self._feed(slot, ev.StoreDown(slot.may_run(), exhausted(error)))

    def _send(self, slot: Slot, write: fx.Write, terms: writes.Terms) -> None:
        if slot.packed is None or slot.packed[0] is not write:
            slot.packed = (write, self._pack(slot, write))
        if write.op is Op.PARK:
            slot.unwritten_questions = _wire_questions(slot, write)
        packed = slot.packed[1]
        now = self._clock.now()
        ran = _round_seconds(slot, now) if write.op in _TIMED_OPS else 0.0
        request = writes.request(slot.call, write, packed, terms, slot.log, ran)
        slot.backing.records.submit(request, partial(self._write_replied, slot, write, packed, now))

    def _pack(self, slot: Slot, write: fx.Write) -> writes.Packed:
        call, seal = slot.call, self.payloads.sealer.seal
        outcome = b""
        if write.op is Op.FINISH:
            data = slot.handler.dump(write.outcome)
            data = WHOLE + data if len(data) <= MAX_OUTCOME_BYTES else DIGEST + journal.digest(data).encode()
            outcome = seal("outcome", data, call=call.id, n=call.position, kind="outcome", key="")
        return writes.pack(call, write, partial(self.payloads.sealed, call.id), self._clock.now(), outcome)

    def _terms(self, slot: Slot) -> writes.Terms:
        if slot.head is None:
            boot, seal = slot.backing.beat.lease.boot, self.payloads.sealer.head_seal
            head = Head(boot=boot, reentrant=slot.handler.reentrant, **slot.handler.describe())
            slot.head = replace(head, seal=seal(slot.call.id, head))
        tombstone_ttl = slot.call.ttl + SKEW
        record_ttl = tombstone_ttl + self._settings.max_round
        return writes.Terms(slot.head, record_ttl, tombstone_ttl, self._settings.max_attempts)

    def _write_replied(
        self, slot: Slot, write: fx.Write, packed: writes.Packed, began: float, reply: Reply | StoreUnavailable
    ) -> None:
        now = self._clock.now()
        if not isinstance(slot.backing.records, TokenRecord) and not (
            write.op in _TIMED_OPS and slot.notes_write(write.op, reply, now - began)
        ):
            self._observers.store_replied(write.op, slot, reply, now - began)
        if slot.call.outbox.in_flight is not write:
            return
        if isinstance(reply, StoreUnavailable):
            self.bursts.warning(_UNANSWERED, prefix(slot.call.id), write.op.value, reply, extra=slot.log_fields)
            self._feed(slot, ev.StoreDown(slot.may_run(), exhausted(reply)))
            return
        event = self._event(slot, write, packed, reply)
        if isinstance(event, ev.Acked):
            slot.add_entries(packed.entries, write.drafts)
            slot.packed = None
            if write.op is Op.HEAL:
                self._counts["healed"] += 1
            if slot.looked_up and write.op in _TIMED_OPS:
                self._moved_on(slot)
            if write.op is Op.PARK:
                slot.questions = slot.unwritten_questions
                slot.shown_questions += write.asks
        elif isinstance(event, ev.Claimed):
            slot.load_record(event.stored.record)
            slot.add_entries(event.stored.journal)
        elif isinstance(event, ev.WriteRefused):
            self._refused(slot, write.op, event.verdict)
        if slot.handler.principal is not None:
            self._count(slot, slot.handler.principal, write.op, event)
        self._feed(slot, event)

    def _refused(self, slot: Slot, op: Op, verdict: Verdict) -> None:
        if verdict is Verdict.BEHIND and op not in (Op.VERIFY, Op.HEAL):
            # A verification is a check itself: the lapse, or the write, that led to it was noticed.
            self._rechecks.begin()
        if verdict is Verdict.LOST:
            self.bursts.warning(_LOST, prefix(slot.call.id), slot.tool, extra=slot.log_fields)
        else:
            logger.info(_REFUSED, prefix(slot.call.id), op.value, verdict.value, extra=slot.log_fields)

    def _event(self, slot: Slot, write: fx.Write, packed: writes.Packed, reply: Reply) -> ev.Event:
        """The event that a reply to a write is. A call that was claimed and can't be read is not entered."""
        try:
            event = writes.event(slot.call, write, packed, reply, slot.backing.beat.lease, self._clock.now())
            if isinstance(event, ev.Claimed):
                if not self._is_whole(slot, event.stored):
                    raise JournalError("the head of its record was altered when it was claimed")
                self.payloads.verify(slot.call.id, event.entries)
        except JournalError as error:
            logger.error(_UNREADABLE, prefix(slot.call.id), error, extra=slot.log_fields)
            return ev.Unreadable(str(error))
        return event

    def _count(self, slot: Slot, user: str, op: Op, event: ev.Event) -> None:
        """A write was decided: count for the user of its call what the store keeps of it now."""
        if isinstance(slot.backing.records, TokenRecord):
            return
        if isinstance(event, ev.Acked | ev.Claimed) and op is not Op.FINISH:
            terms = self._terms(slot)
            size = slot.size + len(terms.head.target)
            self._journals.keep(user, slot.call.id, size, self._clock.now() + terms.record_ttl)
        elif isinstance(event, ev.Acked) or (isinstance(event, ev.WriteRefused) and event.verdict in _GONE):
            self._journals.drop(user, slot.call.id)

    def _moved_on(self, slot: Slot) -> None:
        """A round of a call was parked here, or the call has ended."""
        if self.gate.suspects.has_turn(slot):
            self.gate.end_turn(slot)
        if slot.orphaned:
            self._door.survived(slot.handler)

    def lookup(self, slot: Slot, effect: fx.Lookup) -> None:
        """Read the record for retries that found no frame."""
        slot.looked_up = True
        self._tasks.carry(self._lookup(slot), partial(self._unread, slot))

    async def _lookup(self, slot: Slot) -> None:
        try:
            self._looked(slot, await self._lookup_event(slot))
        finally:
            self.gate.release(slot)

    def _looked(self, slot: Slot, event: ev.Event) -> None:
        if slot.call.phase is Phase.LOOKING:
            self._feed(slot, event)

    def _unread(self, slot: Slot, error: BaseException) -> None:
        self.bursts.line(logging.ERROR, _UNREAD, prefix(slot.call.id), extra=slot.log_fields, error=error)
        self._looked(slot, ev.StoreDown(False, exhausted(error)))
        self.gate.release(slot)

    async def _lookup_event(self, slot: Slot) -> ev.Event:
        """The event that a lookup of the record leads to. An error of the store or of a record becomes an event,
        too."""
        try:
            if not isinstance(slot.backing.records, TokenRecord):
                # A call whose token carries it needs no read and was taken over from no node.
                await self.gate.enter(slot)
            return await self._read_and_judge(slot)
        except StoreUnavailable as error:
            self.bursts.warning(_UNANSWERED, prefix(slot.call.id), "read", error, extra=slot.log_fields)
            return ev.StoreDown(slot.may_run(), exhausted(error))
        except JournalError as error:
            logger.error(_UNREADABLE, prefix(slot.call.id), error, extra=slot.log_fields)
            return ev.Unreadable(str(error))

    async def _read(self, slot: Slot) -> Stored | None:
        began, store_replied = self._clock.now(), self._observers.store_replied
        try:
            reply = await slot.backing.records.run(Read(slot.call.id))
        except StoreUnavailable as error:
            store_replied("read", slot, error, self._clock.now() - began)
            raise
        if not isinstance(slot.backing.records, TokenRecord):
            store_replied("read", slot, reply, self._clock.now() - began)
        if reply.stored is None or self._is_whole(slot, reply.stored):
            return reply.stored
        if not self.payloads.sealer.knows_key(reply.stored.record.head.seal):
            raise JournalError(_UNKNOWN_KEY)
        logger.error(_ALTERED, prefix(slot.call.id), extra=slot.log_fields)
        return None

    def _is_whole(self, slot: Slot, stored: Stored) -> bool:
        """Whether this fleet has sealed the head of a record. That of a call in a token is sealed with the token."""
        is_sealed, carried = self.payloads.sealer.is_sealed, isinstance(slot.backing.records, TokenRecord)
        return carried or is_sealed(slot.call.id, stored.record.head)

    async def code_of(self, store: Store, claims: Claims) -> str:
        """The digest of the code that a call began with, by a verified token of it; empty if there is none.

        Raises:
            StoreUnavailable: the store did not answer.
        """
        stored = (await store.run(Read(claims.call))).stored
        head = None if stored is None else stored.record.head
        whole = head is not None and head.seal == claims.head and self.payloads.sealer.is_sealed(claims.call, head)
        return head.code if head is not None and whole else ""

    async def _read_and_judge(self, slot: Slot) -> ev.Event:
        """Read the record and the leases, and carry out what `ownership` judges of them, until it is decided."""
        held, waiting = slot.backing.beat.lease, slot.call.undecided
        stored = await self._read(slot)
        sight = self._sight(slot, stored, await self._leases(slot, stored), held, waiting)
        judged = self._ownership.judge(sight, self._clock.now())
        while isinstance(judged, Death):
            sight = replace(sight, death_told=True, pause=await self._door.died(slot.handler, judged.record))
            judged = self._ownership.judge(sight, self._clock.now())
        if judged is Wait.TURN:
            taken = await self.gate.take_turn(slot)
            return await self._read_and_judge(slot) if taken else ev.StoreDown(slot.may_run(), judged.value)
        if isinstance(judged, Wait):
            raise StoreUnavailable(judged.value)
        if isinstance(judged, Pause):
            return ev.StoreDown(slot.may_run(), paused=judged.whose)
        if isinstance(judged, ev.MayClaim) and stored is not None:
            slot.renew_handler()
            if slot.is_entered:
                return ev.StoreDown(slot.may_run(), _ENTERED)
            return await self._claimable(slot, sight, stored, judged)
        if isinstance(judged, ev.Pass):
            self._pass_on(slot, judged, waiting)
        else:
            self.bursts.warning(_FORGOTTEN, prefix(slot.call.id), slot.tool, extra=slot.log_fields)
        # The live owner reads the journal itself. It may be of a newer release, so it is not decoded here.
        return sight.found(judged)

    async def _leases(self, slot: Slot, stored: Stored | None) -> Collection[NodeRecord]:
        """The leases of all nodes on the list, and of those that the call names. The list is a hint, and may lack
        them."""
        records = slot.backing.records
        found = await records.nodes()
        owner = NodeId("" if stored is None else stored.record.owner)
        named = {owner, *(item.node for item in slot.call.undecided)}
        unlisted = named - {lease.node for lease in found} - {NodeId("")}
        more = await records.nodes(unlisted) if unlisted else ()
        return (*found, *more) if more else found

    def _look(self, found: Collection[NodeRecord]) -> _LeasesSeen:
        """What these leases say. Calls whose leases were read at once get the same object, so it is made once."""
        if self._seen.found is not found:
            members = [(lease, self._peers.member(lease)) for lease in found]
            believed = {
                lease.node: lease if member.address is not None else replace(lease, address="")
                for lease, member in members
                if member.state != STRANGE
            }
            doubtful = frozenset(lease.node for lease, member in members if member.state == STRANGE)
            addresses = {lease.node: lease.address for lease, member in members if member.address is not None}
            self._seen = _LeasesSeen(found, believed, doubtful, addresses)
        return self._seen

    def _sight(
        self,
        slot: Slot,
        stored: Stored | None,
        found: Collection[NodeRecord],
        held: Lease,
        waiting: tuple[ev.Retry, ...],
    ) -> Sight:
        """All that was seen of a call. `held` is this node's lease before the read, and `waiting` are the requests that
        had come. The addresses of the nodes are kept."""
        beat, now = slot.backing.beat, self._clock.now()
        _, believed, doubtful, addresses = self._look(found)
        self.addresses = dict(addresses)
        heir = self._drain.heir(slot.call.id)
        if heir is not None:
            self.addresses[heir[0]] = heir[1]
        return Sight(
            call=slot.call.id,
            stored=stored,
            waiting=waiting,
            leases=believed,
            doubtful=doubtful,
            me=beat.lease,
            code=slot.handler.code,
            is_marked=slot.handler.reentrant,
            is_registered=beat.is_registered,
            may_claim=beat.claims(now),
            absences_count=beat.believes_absences(believed.get(beat.lease.node), held, now),
            heir=None if heir is None else heir[0],
            may_offer=all(item.carrier.may_be_passed_on for item in slot.arrivals.values()),
            has_turn=self.gate.suspects.has_turn(slot),
        )

    def _pass_on(self, slot: Slot, judged: ev.Pass, waiting: tuple[ev.Retry, ...]) -> None:
        """Another node answers these requests: tell those that are offered to it."""
        if judged.offered:
            for arrival in filter(None, (slot.arrivals.get(retry.waiter) for retry in waiting)):
                arrival.carrier.passed_on(self.addresses[judged.node])

    async def _claimable(self, slot: Slot, sight: Sight, stored: Stored, judged: ev.MayClaim) -> ev.Found:
        """The event of a call that may be claimed: its journal is decoded, and the code that it began with is here."""
        slot.orphaned = judged.died
        if not isinstance(slot.backing.records, TokenRecord):
            await self.gate.weigh(slot, sum(map(len, stored.journal)))
        entries = writes.read(stored)
        self.payloads.verify(slot.call.id, entries)
        kept = bool(judged.code) and await self.keeper.load(slot.handler, judged.code)
        slot.head = replace(stored.record.head, boot=slot.backing.beat.lease.boot)
        return sight.found(judged, entries, kept)

    def open_outcome(self, slot: Slot, outcome: fx.Outcome) -> Answer:
        """The reply with the outcome that a tombstone keeps; a refusal if it is not kept or can't be opened."""
        call = slot.call
        if not outcome.sealed and is_alone(slot.backing.beat.lease):
            # Nobody else writes to a store that is not shared.
            return fx.Refusal(fx.Reason.ALREADY_ANSWERED, detail="it finished; its result is not kept any more")
        refusal = fx.Refusal(fx.Reason.LOST, detail="its outcome can't be opened")
        try:
            data = self.payloads.sealer.open(
                "outcome", outcome.sealed or b"", call=call.id, n=outcome.position, kind="outcome", key=""
            )
        except SealError as error:
            logger.error(
                "call %s: its outcome can't be opened, and its client is told that it is lost: %s",
                prefix(call.id),
                error,
                extra=slot.log_fields,
            )
            return refusal
        if data[:1] == WHOLE:
            return Ended(slot.handler.load(data[1:]))
        return fx.Refusal(fx.Reason.ALREADY_ANSWERED, detail="it finished; its result was too large to be kept")


def _round_seconds(slot: Slot, now: float) -> float:
    """For how many seconds the round has run at `now`: since the arrival of the first request that waits for it."""
    came = now
    for item in slot.call.waiting:
        if (arrival := slot.arrivals.get(item.waiter)) is not None and arrival.came < came:
            came = arrival.came
    return now - came


def _wire_questions(slot: Slot, write: fx.Write) -> Questions:
    """The questions of a PARK write as the client gets them. New ones come from the frame, the others from the rounds
    before. A write that is sent again has the same questions, even if its handler has given one up meanwhile or asks
    another one under its key."""
    pending = {} if slot.frame is None else slot.frame.pending
    known = dict((*slot.questions, *slot.unwritten_questions))
    for draft in write.asks:
        ask = pending.get(draft.key)
        if ask is not None and ask.question.fp == draft.fp:
            known[draft.key] = ask.question.wire
    return tuple((draft.key, known[draft.key]) for draft in write.asks)
