"""The runtime of one node: requests come in as `start`, `retry` or `replay`, and wait for their reply.

Between request and reply there are only events, which the loop steps one after the other (`loop`).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.call import Call, Phase
from framehold_core.errors import LimitExceeded
from framehold_core.ids import CallId, NodeId, Waiter
from framehold_core.value import replace
from framehold_fleet.members.node_stats import Stats
from framehold_fleet.telemetry import descriptors
from framehold_store.base import Store

from ..code.codes import Registered
from ..config import Settings
from ..frame.context import take_back
from ..frame.entropy import SystemEntropy
from ..frame.logged_call import logged_call
from ..frame.ports import RoundCarrier
from ..version import STARTED, VERSION
from . import answer_parsing as answers_of
from . import token_claims, token_record
from .answer_parsing import MalformedAnswer
from .doors.door import Door
from .drain import CARRIED, NodeDrain
from .eviction import Eviction
from .heartbeat import Alone, Heartbeat
from .observer import RequestEnd
from .orphan_scan import OrphanScan
from .peers import Peers, closed, opened
from .performer import Performer
from .ports import HandlerEntry
from .rechecks import Rechecks
from .records import CallRecords
from .replies import Answer
from .shared import Shared
from .slot import Arrival, Backing, Slot
from .takeovers import Takeovers
from .tasks import each, keep, run_all
from .token_claims import Carried, Claims
from .token_record import TokenRecord

logger = logging.getLogger(__name__)

_ARRIVED_TWICE = "this request arrived twice; its call was begun once and is not begun again"
SWEEP = 1.0
"""Seconds between two searches for expired frames and for rounds that ran too long."""
_PARKED = Phase.PARKED


class Runtime:
    """Holds the calls of one node. Belongs to one event loop. `app.assemble` builds it and its parts."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        shared: Shared,
        *,
        heartbeat: Heartbeat | Alone,
        peers: Peers,
        records: CallRecords,
        drain: NodeDrain,
        door: Door,
        orphan_scan: OrphanScan,
        rechecks: Rechecks,
        after_renewal: list[Callable[[], None]],
    ) -> None:
        self.settings, self.store, self._shared = settings, store, shared
        self.heartbeat, self.peers, self.door = heartbeat, peers, door
        self.table, self.counts, self.tasks = shared.table, shared.counts, shared.tasks
        self.observers, self.clock = shared.observers, shared.clock
        self.eviction, self.draining, self.orphan_scan = Eviction(settings, shared), drain, orphan_scan
        self._records, self.payloads, self._gate = records, records.payloads, records.gate
        self._performer, self._rechecks = Performer(settings, shared, records), rechecks
        self._doubts, self._most_written = 0, settings.most_written
        self.clock_began = self.clock.at(0.0)
        """When the node's clock began, in seconds since 1970, as it was measured when the node was opened. It makes one
        time of a call always the same one for operators, whose lists are sorted by it."""
        self.after_renewal = after_renewal
        """Functions that run after each renewal of the node lease. Slow work belongs there: the next renewal is
        farthest away then."""
        self.after_renewal.insert(0, self._lease_renewed)
        self.after_renewal.append(self.door.renewed)
        self.feed = shared.loop.feed
        shared.loop.attach(self._performer.perform, self._performer.drop, self._gate.release, self.eviction.claimed)
        self.takeovers = Takeovers(self.clock, self.observers.takeover)
        self.observers.stepped.connect(self.takeovers.stepped)
        self._waiters = itertools.count(1)
        self._unleased = Alone(self.settings.node_id, self.clock)
        self._store_backing = Backing(self.store, self.heartbeat, SystemEntropy(self.clock))
        self._rehearsal_backing = self._store_backing._replace(drops=True)

    @property
    def retry_after(self) -> int:
        """Seconds after which a client that was refused may try again: about a heartbeat."""
        return max(1, round(self.settings.lease_ttl / 3))

    async def open(self) -> None:
        """Connect the store, take the node lease, and start the background tasks.

        Raises:
            NodeNameTaken: another live process has this node's name; nothing was started.
        """
        self.draining.opened()
        await self.store.open()
        await self.heartbeat.open()
        self.clock_began = self.clock.at(0.0)
        opened(self.heartbeat)
        await self.door.open()
        self.eviction.open()
        # Without its sweep a node would keep no limit in time.
        self.tasks.spawn(keep("the sweep of calls that are due", self._sweep))
        if isinstance(self.heartbeat, Heartbeat):
            self.tasks.spawn(self.orphan_scan.run())

    def rename(self, node: NodeId) -> None:
        """Give this node another id than the settings name, before it is opened."""
        self.peers.node = node
        for lease_holder in (self.heartbeat, self._unleased):
            lease_holder.lease = replace(lease_holder.lease, node=node)

    async def drain(self, patience: float, parked: bool = True, leaves: bool = True) -> None:
        """Leave the fleet: take no new call and hand off the calls that other nodes may carry on. Then wait up to
        `patience` seconds for rounds that run and, if `parked`, for calls that only this process can carry on. Call
        `close` next, unless the process goes on (`leaves` is false)."""
        await self.draining.drain(patience, parked, leaves)

    async def end(self) -> None:
        """Drop every frame. Running effects end first. Then handlers are cancelled, and waiting requests are refused.
        Returns when the handlers have ended, since the refusals leave after them: an HTTP server that stops next still
        sends these. A node whose name was taken hands nothing off, and waits three quarters of a lease's life at most:
        half for effects, a quarter for handlers."""
        try:
            await self._let_end()
        finally:
            for slot in self.table:
                self._performer.drop(slot, self.draining.last_reply(slot))
            await self.tasks.wait_for_cancelled()

    async def _let_end(self) -> None:
        if self.heartbeat.lost.is_set():
            self.draining.closed = True
            self.tasks.patience = min(self.tasks.patience, self.settings.lease_ttl / 4)
            await self.tasks.wait_for_effects(self.settings.lease_ttl / 2)
            return
        try:
            await self.drain(0.0)
        finally:
            self.draining.closed = True
            self._performer.owed_results.write_all()
            await self.tasks.wait_for_effects()

    async def close(self) -> None:
        """Drop every frame, end the background tasks, give the node lease back, and close the store."""
        closed(self.heartbeat)
        await each(self.end, self.tasks.close, self.peers.close, self.heartbeat.close, self.store.close)

    async def start(self, handler: HandlerEntry, carrier: RoundCarrier, call_id: CallId | None = None) -> Answer:
        """Enter a handler for a new call and wait for the reply to round 1. `call_id` is the id that a router chose for
        the call; without one the node makes it.

        Raises:
            LimitExceeded: this node, or this principal, has as many calls as it may, or memory is short; nothing was
                started.
            MalformedAnswer: an answer that came along is too large; nothing was started.
        """
        if (answer := self.draining.divert_start(call_id)) is not None:
            return answer
        await self.door.wait_for_lease(handler)
        if (answer := self.draining.divert_start(call_id)) is not None:
            # The node has begun to leave meanwhile.
            return answer
        if call_id is not None and self.table.get(call_id) is not None:
            return fx.Refusal(fx.Reason.UNAVAILABLE, detail=_ARRIVED_TWICE)
        if handler.prefilled:
            answers_of.given(handler.prefilled, self.settings.max_value, self.payloads.sealer.digest)
        if (refusal := self.door.refusal(handler, True)) is not None:
            self.observers.call_refused(handler.tool)
            return refusal
        self.eviction.admit(handler.principal, handler.weight)
        if handler.strategy == "replay":
            backing = Backing(TokenRecord(self.clock), self._unleased, token_record.begun(self.clock), True)
        else:
            backing = self._store_backing_of(handler)
        return await self._begin(handler, carrier, call_id, backing)

    def takes(self, tool: str) -> bool:
        """Whether nothing of this node stands against a request of `tool`: it does not drain, and has its name still,
        and the tool is not paused."""
        draining = self.draining
        stands = draining.begun or draining.closed or self.heartbeat.lost.is_set()
        return not stands and tool not in self.door.pauses.known

    def begin(self, handler: HandlerEntry, carrier: RoundCarrier, call_id: CallId | None) -> Awaitable[Answer] | None:
        """Enter a handler for a new call of strategy hold that has no answers, as `start` does. None, and nothing was
        done, where `start` would refuse it, or wait or make room first."""
        if not self.door.has_store() or (call_id is not None and self.table.get(call_id) is not None):
            return None
        if not self.eviction.has_room(handler.principal, handler.weight):
            return None
        return self._begin(handler, carrier, call_id, self._store_backing)

    def _begin(
        self, handler: HandlerEntry, carrier: RoundCarrier, call_id: CallId | None, backing: Backing
    ) -> Awaitable[Answer]:
        slot = self.table.add(self._slot(call_id or self.peers.mint(), handler, backing))
        return self._submit(slot, ev.Start(Waiter(next(self._waiters))), Arrival(carrier, parsed={}))

    async def retry(
        self, claims: Claims, answers: Mapping[str, Any], handler: HandlerEntry, carrier: RoundCarrier
    ) -> Answer:
        """Answer a request that brings a verified token; `answers` are its raw answers by key.

        Raises:
            MalformedAnswer: an answer is not of the kind that its question asks for; nothing was consumed.
            LimitExceeded: the journals of this principal have as much as they may; nothing was consumed.
        """
        if (answer := self.draining.divert_retry(claims.call)) is not None:
            return answer
        if (refusal := self.door.refusal(handler, False)) is not None:
            return refusal
        named = partial(self.payloads.sealer.digest, head=claims.head)
        given, slot = answers_of.given(answers, self.settings.max_value, named), self.table.get(claims.call)
        if slot is None or slot.call.phase is _PARKED:
            size = sum(len(answer.value) for answer in given)
            answers_of.fits(size, 0 if slot is None else slot.size, self.settings.most_written)
            self.table.admit_answers(handler.principal, size)
        if slot is None:
            slot = self.table.add(self._slot(claims.call, handler, self._store_backing_of(handler)))
        return await self._answer(slot, claims, given, Arrival(carrier, handler, raw=answers))

    def resume(
        self, claims: Claims, answers: Mapping[str, Any], handler: HandlerEntry, carrier: RoundCarrier, *, here: bool
    ) -> Awaitable[Answer] | None:
        """Answer a request that brings a verified token, as `retry` does. `here`: the frame of its call waits here;
        else it has none here. None, and nothing was done, where that is not so, or `retry` would refuse the request."""
        slot = self.table.get(claims.call)
        if here != (slot is not None and slot.frame is not None):
            return None
        try:
            named = partial(self.payloads.sealer.digest, head=claims.head)
            given = answers_of.given(answers, self.settings.max_value, named)
            size = sum([len(answer.value) for answer in given])
            answers_of.fits(size, 0 if slot is None else slot.size, self._most_written)
            if handler.principal is not None:
                self.table.admit_answers(handler.principal, size)
            parsed = answers_of.parsed(slot, claims.round, answers) if here and slot is not None else None
        except (MalformedAnswer, LimitExceeded):
            return None
        if slot is None:
            slot = self.table.add(self._slot(claims.call, handler, self._store_backing_of(handler)))
        return self._answer(slot, claims, given, Arrival(carrier, handler, parsed, answers))

    def _answer(self, slot: Slot, claims: Claims, given: tuple[ev.Answer, ...], arrival: Arrival) -> Awaitable[Answer]:
        waiter, held = Waiter(next(self._waiters)), self.heartbeat.lease
        event = ev.Retry(waiter, claims.round, claims.epoch, claims.mark, claims.node, given, held, claims.head)
        return self._submit(slot, event, arrival)

    async def replay(
        self, carried: Carried, answers: Mapping[str, Any], handler: HandlerEntry, carrier: RoundCarrier
    ) -> Answer:
        """Answer a request whose verified token carries the whole call (strategy replay); `answers` are its raw answers
        by key.

        Raises:
            MalformedAnswer: an answer is not of the kind that its question asks for; nothing was consumed.
            LimitExceeded: this node, or this principal, has as many calls as it may, or memory is short.
            JournalError, SealError: the journal in the token can't be read here; nothing was done.
        """
        if (answer := self.draining.divert_retry(carried.call, CARRIED)) is not None:
            return answer
        if (refusal := self.door.refusal(handler, False)) is not None:
            return refusal
        self.eviction.admit(handler.principal, handler.weight)
        given = answers_of.given(answers, self.settings.max_value, self.payloads.sealer.digest)
        records, entropy, mark = token_record.arrived(carried, self.payloads.sealer, self.clock)
        waiter, held = Waiter(next(self._waiters)), self._unleased.lease
        backing = Backing(records, self._unleased, entropy, True)
        slot = self.table.add(self._slot(carried.call, handler, backing, f"{carried.call}/{waiter}"))
        event = ev.Retry(waiter, carried.round, carried.epoch, mark, held.node, given, held)
        return await self._submit(slot, event, Arrival(carrier, raw=answers))

    async def kept_code(self, state: str) -> Registered | None:
        """The kept code that a call began with; None if there is none, or it can't be loaded here. `state` is the
        verified state of a retry whose handler this process does not have.

        Raises:
            StoreUnavailable: the store did not answer.
        """
        if state.startswith(token_claims.REPLAY):
            carried = token_claims.carried(state)
            code = "" if carried is None else carried.code
        else:
            claims = token_claims.read(state)
            code = "" if claims is None else await self._records.code_of(self.store, claims)
        return await self._records.keeper.find(code) if code else None

    def stop(self, slot: Slot, outcome: object) -> asyncio.Future[ev.Event] | None:
        """Cancel the handler of a call, and end the call for good with `outcome`.

        Returns:
            A future of the event that decides what became of the write of `outcome`. None where nothing was done: the
            call has no frame here, an effect or a write of it is under way, or it is being stopped already.
        """
        frame, before = slot.frame, slot.call
        if frame is None or (slot.stopping is not None and not slot.stopping.done()):
            return None
        slot.stopping = stopping = asyncio.get_running_loop().create_future()
        self.feed(slot, ev.Stop(outcome))
        if slot.call is before:
            slot.stopping = None
            return None
        self.tasks.cancel_frame(frame)
        return stopping

    def _store_backing_of(self, handler: HandlerEntry) -> Backing:
        """The backing of a call whose record is in the store."""
        return self._rehearsal_backing if self.settings.rehearse and handler.reentrant else self._store_backing

    def _slot(self, call: CallId, handler: HandlerEntry, backing: Backing, place: str = "") -> Slot:
        held, ttl = backing.beat.lease, handler.lifetime or self.settings.token_ttl
        return Slot(Call(call, held.node, held.incarnation, handler.reentrant, ttl), handler, backing, place)

    def stats(self) -> Stats:
        """This node's load, as its lease reports it."""
        return load_of(self._shared, self.peers, self.draining, self.heartbeat)

    async def _submit(self, slot: Slot, event: ev.Start | ev.Retry, arrival: Arrival) -> Answer:
        """Feed the event of a request, and wait for its reply."""
        began = self.clock.now()
        ended: RequestEnd = None
        arrival.came, arrival.event = began, event
        # Also for the lines of the author's middleware that come after the round, in this task.
        logged_call.set(slot)
        try:
            if arrival.parsed is None:
                arrival.parsed = answers_of.parsed(slot, event.round, arrival.raw)  # type: ignore[union-attr]
            slot.add_arrival(event.waiter, arrival)
            self.feed(slot, event)
            ended = answer = await arrival.future
            return answer
        except BaseException as error:
            # Cancelled with its client, malformed, or ended by a bug: it waits no more.
            ended = error if isinstance(error, MalformedAnswer) else None
            if slot.pop_arrival(event.waiter) is not None:
                self.feed(slot, ev.Left(event.waiter))
                if slot.call.abandoned and slot.frame is not None:
                    # An effect runs: the handler is cancelled when its result is stored (docs/protocol.md, rule 8).
                    arrival.carrier.ending = slot.frame.task
                slot.next_carrier()
            raise
        finally:
            self.observers.answered(slot, arrival, ended, self.clock.now() - began)
            try:
                if (handler := arrival.carrier.ending) is not None:
                    # The author's middleware around this request may close what the handler's cleanup needs.
                    await self.tasks.outlast(handler)
            finally:
                take_back(arrival.carrier)

    def _lease_renewed(self) -> None:
        """The node lease was renewed, so the store answers: send unsent writes, and resume what waited for a valid
        lease. In a parked call without pending intents nothing waits for one. If the store may have gone back, all
        frames are compared with it in the background."""
        held = self.heartbeat.lease
        if self.heartbeat.doubts != self._doubts:
            self._doubts = self.heartbeat.doubts
            self._rechecks.begin()
        for busy in self.table:
            call = busy.call
            if (call.phase is not Phase.PARKED or call.intents) and busy.backing.beat is self.heartbeat:
                self.feed(busy, ev.Renewed(held))
        self._shared.loop.store_is_back()

    async def _sweep(self) -> None:
        await asyncio.sleep(SWEEP)
        for slot, event in self.table.due(self.clock.now()):
            self.feed(slot, event)
        self._gate.release_slow(self.clock.now())
        self.table.journals.forget_expired(self.clock.now())
        await self.eviction.sweep()
        if isinstance(self.heartbeat, Alone):
            # A heartbeat counts the calls that are asleep; so those are forgotten whose tokens have ended.
            self.table.asleep()
            run_all(self.after_renewal)


def load_of(shared: Shared, peers: Peers, drain: NodeDrain, beat: Heartbeat | Alone) -> Stats:
    """The load of a node, as its lease reports it."""
    table, clock = shared.table, shared.clock
    (parked, in_flight), (kept, bound) = table.load(), table.stakes()
    server, tools_digest = peers.identity()
    used, allowed = descriptors.read()
    return Stats(
        pid=os.getpid(),
        parked=parked,
        in_flight=in_flight,
        version=VERSION,
        started=clock.at(STARTED),
        clock_offset=round(clock.offset, 3),
        admin_port=peers.admin_port,
        kept=kept,
        bound=bound,
        asleep=table.asleep(),
        released=drain.released_ever,
        prefix=peers.prefix,
        server=server,
        tools_digest=tools_digest,
        descriptors=used,
        descriptors_limit=allowed,
        round_trip=beat.round_trips.usual,
        longest_round_trip=beat.round_trips.longest,
    )
