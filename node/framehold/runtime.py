"""The runtime: feeds the core's machine with what happens, and performs the effects that it returns.

It knows no SDK. A request comes in as `start` or `retry` and waits for its reply; everything in between is `feed`:

    1. an event is stepped, and the new state replaces the old one before anything else runs
    2. the effects are performed in order; what they bring back at once (a memory store) is queued, not nested
    3. what the store says to a write that is no longer in flight is dropped: its frame went meanwhile
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core import lease
from framehold_core.call import Call, Phase
from framehold_core.continuation import step
from framehold_core.ids import CallId, NodeId, Waiter, prefix
from framehold_router.stats import Stats
from framehold_store.base import Store
from framehold_store.seal import Sealer

from . import answers as answers_of
from . import clock
from .about import STARTED, VERSION
from .config import Settings
from .frames import Carrier, Frame
from .heartbeat import Alone, Heartbeat
from .ledger import Ledger, Node
from .peers import Peers
from .slots import Answer, Arrival, Elsewhere, Ended, Entrance, Parked, Slot
from .table import Table
from .tasks import Tasks
from .tokens import Claims

logger = logging.getLogger(__name__)

_SHUT = "this node shuts down and the call ends with it; start it again if that is safe"
_TWICE = "this request arrived twice; its call was begun once and is not begun again"
_LAPSED = "its node lease is not valid: the store does not answer, or it lapsed"
_LOST = "another process runs under this node's name, so no call runs here; nothing was done; send the request again"
SWEEP = 1.0
"""Seconds between two looks for expired frames and rounds that ran too long."""


class Runtime:
    """Holds the calls of one node. Belongs to one event loop."""

    def __init__(
        self, store: Store, heartbeat: Heartbeat | Alone, sealer: Sealer, settings: Settings, peers: Peers
    ) -> None:
        self.store, self.heartbeat, self.settings, self.peers = store, heartbeat, settings, peers
        self.table = Table(settings)
        self.counts: Counter[str] = Counter()
        """What happened, by name: `entered`, `parked`, `resumed`, `fenced`, `ungated`, `unburied`, ..."""
        self.tasks = Tasks(self.counts)
        self._ledger = Ledger(Node(store, heartbeat, settings), sealer, self.tasks, self.feed)
        self.after_renewal: list[Callable[[], None]] = [self._nudge]
        """What is due when the lease was just renewed: the next renewal is farthest away then."""
        self._waiters = itertools.count(1)
        self._queue: deque[tuple[Slot, ev.Event]] = deque()
        self._feeding = self._closing = False
        self._stalled: set[CallId] = set()
        self._perform: dict[type[Any], Callable[[Slot, Any], None]] = {
            fx.Write: self._ledger.write,
            fx.Lookup: self._ledger.look,
            fx.Run: self._run,
            fx.Deliver: self._deliver,
            fx.Cancel: self._cancel,
            fx.Reply: self._reply,
            fx.Relay: self._relay,
            fx.Ungated: lambda slot, effect: self.counts.update(["ungated"]),
            fx.Forget: self._forget,
        }

    async def open(self) -> None:
        """Connect the store, take the node lease, start looking after what expires. Raises NodeNameTaken."""
        self._closing = False
        await self.store.open()
        await self.heartbeat.open()
        self.heartbeat.on_renewed = self._renewed
        self.heartbeat.stats = lambda: self.stats().dump()
        self.tasks.spawn(self._sweep())

    async def close(self) -> None:
        """Tear every frame down, then give the lease back. Callers see their handlers cancelled."""
        self._closing = True
        for slot in self.table:
            self._drop(slot, fx.Reason.UNAVAILABLE, _SHUT)
        await self.tasks.close()
        await self.peers.close()
        await self.heartbeat.close()
        await self.store.close()

    async def start(self, entrance: Entrance, carrier: Carrier, call_id: CallId | None = None) -> Answer:
        """Enter a handler for a new call, which a router may have named, and wait for the reply to round 1.

        Raises:
            LimitExceeded: this node, or this principal, has as many calls as it may; nothing was started.
        """
        if (refusal := self._refusal()) is not None:
            return refusal
        if call_id is not None and self.table.get(call_id) is not None:
            return fx.Refusal(fx.Reason.UNAVAILABLE, detail=_TWICE)
        self.table.admit(entrance.principal)
        held = self.heartbeat.lease
        call_id = call_id or self.peers.mint()
        call = Call(call_id, held.node, held.inc, entrance.reentrant, self.settings.token_ttl)
        slot = self.table.add(Slot(call, entrance, self))
        waiter = Waiter(next(self._waiters))
        return await self._wait(slot, ev.Start(waiter), carrier, {})

    async def retry(self, claims: Claims, answers: Mapping[str, Any], entrance: Entrance, carrier: Carrier) -> Answer:
        """Answer a request that brings a verified token; `answers` are its raw answers by key.

        Raises:
            MalformedAnswer: an answer is not of the kind that its question asks for; nothing was consumed.
        """
        if (refusal := self._refusal()) is not None:
            return refusal
        held = self.heartbeat.lease
        slot = self.table.get(claims.call)
        parsed = {} if slot is None else answers_of.parsed(slot, claims.round, answers)
        given = answers_of.given(answers)
        if slot is None:
            call = Call(claims.call, held.node, held.inc, entrance.reentrant, self.settings.token_ttl)
            slot = self.table.add(Slot(call, entrance, self))
        waiter = Waiter(next(self._waiters))
        event = ev.Retry(waiter, claims.round, claims.epoch, claims.mark, claims.node, given, held)
        return await self._wait(slot, event, carrier, parsed)

    def stats(self) -> Stats:
        """This node's load, as its lease and its routers tell it."""
        return Stats(os.getpid(), *self.table.load(), VERSION, STARTED, self.peers.trust.names)

    def unready(self) -> str | None:
        """Why this node takes no new call now; None where it does."""
        if (refusal := self._refusal()) is not None:
            return refusal.detail
        return None if lease.is_open(self.heartbeat.lease, clock.now()) else _LAPSED

    def _refusal(self) -> fx.Refusal | None:
        """Why this node takes no request now, if it doesn't."""
        if self._closing:
            return fx.Refusal(fx.Reason.UNAVAILABLE, detail=_SHUT)
        if self.heartbeat.lost.is_set():
            return fx.Refusal(fx.Reason.UNAVAILABLE, detail=_LOST)
        return None

    async def _wait(self, slot: Slot, event: ev.Start | ev.Retry, carrier: Carrier, parsed: dict[str, Any]) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        slot.arrivals[event.waiter] = Arrival(carrier, future, parsed)
        self.feed(slot, event)
        try:
            return await future
        except asyncio.CancelledError:
            if slot.arrivals.pop(event.waiter, None) is not None:
                self.feed(slot, ev.Left(event.waiter))
                slot.carry_on()
            raise

    def feed(self, slot: Slot, event: ev.Event) -> None:
        """Step one event, and whatever follows from it."""
        self._queue.append((slot, event))
        if self._feeding:
            return
        self._feeding = True
        try:
            while self._queue:
                slot, event = self._queue.popleft()
                self._step(slot, event)
        finally:
            self._feeding = False

    def _step(self, slot: Slot, event: ev.Event) -> None:
        try:
            slot.call, effects = step(slot.call, event, clock.now())
            for effect in effects:
                self._perform[type(effect)](slot, effect)
        except Exception:
            # A bug costs the call that met it, never the node; and nobody is left waiting.
            logger.exception("call %s met a bug of this node: its frame is dropped", prefix(slot.call.id))
            self.counts["broken"] += 1
            self._drop(slot, fx.Reason.LOST, "this node is at fault")
            return
        if slot.call.stalled:
            self._stalled.add(slot.call.id)

    def bury(self, frame: Frame) -> None:
        """Silence a frame and see its handler to its end."""
        self.tasks.bury(frame)

    def _run(self, slot: Slot, effect: fx.Run) -> None:
        carrier = slot.arrivals[slot.call.waiting[0].waiter].carrier
        frame = slot.frame = Frame(slot, effect.epoch, carrier, slot.entrance.prefilled)
        slot.entrance.prefilled = {}
        slot.due = clock.now() + self.settings.max_round
        self.counts["entered"] += 1
        handler = self._enter(slot, frame)
        frame.task = asyncio.get_running_loop().create_task(handler, name="framehold-frame", context=frame.context)

    async def _enter(self, slot: Slot, frame: Frame) -> None:
        outcome = await slot.entrance.enter(frame)
        # What the handler's context holds leads back to the frame: let go of it, or a collector has to.
        frame.task = frame.context = None
        if slot.frame is frame and not frame.dead:
            self.feed(slot, ev.Finished(outcome))

    def _deliver(self, slot: Slot, effect: fx.Deliver) -> None:
        frame = slot.frame
        assert frame is not None, "answers are delivered to a frame"
        arrival = slot.arrivals[slot.call.waiting[0].waiter]
        frame.carrier, frame.round = arrival.carrier, slot.call.round + 1
        slot.due = clock.now() + self.settings.max_round
        self.counts["resumed"] += 1
        shown, slot.shown = slot.shown, {}
        frame.deliver(effect.answers, arrival.parsed, shown)

    def _cancel(self, slot: Slot, effect: fx.Cancel) -> None:
        self.counts[effect.cause] += 1
        frame, slot.frame = slot.frame, None
        slot.log, slot.packed, slot.questions, slot.shown = [], None, {}, {}
        if frame is not None:
            logger.info("call %s: frame of epoch %d dropped (%s)", prefix(slot.call.id), frame.epoch, effect.cause)
            self.bury(frame)

    def _reply(self, slot: Slot, effect: fx.Reply) -> None:
        answer = effect.answer
        if isinstance(answer, fx.Questions):
            self.counts["parked"] += 1
            refusal = self._unaskable(slot, effect.waiter)
            told = Parked(slot.questions, slot.call.id, answer) if refusal is None else Ended(refusal)
            self._answer(slot, effect.waiter, told)
            if slot.frame is not None and slot.call.phase is Phase.PARKED:
                slot.frame.carrier = None
        elif isinstance(answer, fx.Refusal):
            self._answer(slot, effect.waiter, answer)
        else:
            outcome = self._ledger.opened(slot, answer) if answer.sealed else Ended(answer.value)
            self._answer(slot, effect.waiter, outcome)

    def _unaskable(self, slot: Slot, waiter: int) -> object | None:
        """What this one request gets instead of questions that its client can't be asked: the call stays as it is, for
        one that can. The request that carried the round was looked at when the handler asked."""
        frame, arrival = slot.frame, slot.arrivals.get(waiter)
        if frame is None or arrival is None or arrival.carrier is frame.carrier:
            return None
        asks = (frame.pending[key] for key in slot.questions if key in frame.pending)
        refusals = (arrival.carrier.refusal(ask.question) for ask in asks)
        return next((refusal for refusal in refusals if refusal is not None), None)

    def _answer(self, slot: Slot, waiter: int, answer: Answer) -> None:
        arrival = slot.arrivals.pop(waiter, None)
        if arrival is not None and not arrival.future.done():
            arrival.future.set_result(answer)

    def _relay(self, slot: Slot, effect: fx.Relay) -> None:
        node = NodeId(effect.node)
        self._answer(slot, effect.waiter, Elsewhere(node, self._ledger.addresses.get(node, "")))

    def _forget(self, slot: Slot, effect: fx.Forget) -> None:
        if self.table.remove(slot):
            self._stalled.discard(slot.call.id)
            if slot.frame is not None:
                self.bury(slot.frame)
                slot.frame = None

    def _drop(self, slot: Slot, reason: fx.Reason, detail: str) -> None:
        """Let go of a call, whatever its state; whoever waits is told why."""
        for waiter in list(slot.arrivals):
            self._answer(slot, waiter, fx.Refusal(reason, slot.call.round, detail))
        self._forget(slot, fx.Forget())

    def _nudge(self) -> None:
        """The store answers: send what was left unsent."""
        stalled, self._stalled = self._stalled, set()
        for call_id in stalled:
            if (slot := self.table.get(call_id)) is not None:
                self.feed(slot, ev.Nudged())

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            for slot, event in self.table.due(clock.now()):
                self.feed(slot, event)
            if isinstance(self.heartbeat, Alone):
                self._renewed()

    def _renewed(self) -> None:
        for action in self.after_renewal:
            action()
