"""The runtime: feeds the core's machine with what happens, and performs the effects that it returns.

It knows no SDK. A request comes in as `start` or `retry` and waits for its reply; everything in between is `feed`:

    1. an event is stepped, and the new state replaces the old one before anything else runs
    2. the effects are performed in order; what they bring back at once (a memory store) is queued, not nested
    3. what the store says to a write that is no longer in flight is dropped: its frame went meanwhile
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.call import Call, Phase, gone
from framehold_core.continuation import step
from framehold_core.ids import CallId, Waiter, prefix
from framehold_router.stats import Stats
from framehold_store.base import Store
from framehold_store.seal import Sealer
from framehold_store.values import Values

from . import answers as answers_of
from . import clock, passing
from .about import STARTED, VERSION
from .asks import Carrier
from .chance import World
from .config import Settings
from .drain import CARRIED, Drain
from .entrance import Entrance
from .eviction import Eviction
from .frames import Frame
from .heartbeat import Alone, Heartbeat
from .ledger import SKEW, Ledger
from .logs import about
from .orphans import Orphans
from .passing import Passing
from .payloads import Payloads
from .peers import Peers
from .performer import Performer
from .slots import Answer, Arrival, Home, Slot
from .table import Table
from .tasks import Tasks
from .tokens import Carried, Claims
from .watch import Watches

logger = logging.getLogger(__name__)

_TWICE = "this request arrived twice; its call was begun once and is not begun again"
SWEEP = 1.0
"""Seconds between two looks for expired frames and rounds that ran too long."""
# Looked up once: each step asks for them.
_CLAIMING, _REBUILDING, _PARKING, _PARKED = Phase.CLAIMING, Phase.REBUILDING, Phase.PARKING, Phase.PARKED


class Runtime:
    """Holds the calls of one node. Belongs to one event loop."""

    def __init__(
        self, store: Store, heartbeat: Heartbeat | Alone, sealer: Sealer, settings: Settings, peers: Peers
    ) -> None:
        self.store, self.heartbeat, self.settings, self.peers = store, heartbeat, settings, peers
        self.table = Table(settings)
        self.counts: Counter[str] = Counter()
        """What happened, by name: `entered`, `parked`, `resumed`, `rebuilt`, `fenced`, `ungated`, `unburied`, ..."""
        self.watches = Watches()
        """Who is told what happens here."""
        self.tasks = Tasks(self.counts)
        self.eviction = Eviction(settings, self.table, self.tasks, self.counts, self.watches, self.feed)
        self.payloads = Payloads(sealer, Values(pickle=settings.pickle, limit=settings.max_value))
        self.max_journal = settings.max_journal
        ledger = Ledger(settings, self.payloads, self.tasks, self.feed, self.watches)
        self.orphans = Orphans(store, heartbeat, SKEW + settings.max_round)
        self.leaving = Drain(self.table, heartbeat, peers, self.counts, self.watches, self.feed)
        ledger.heir, ledger.member, self._gate = self.leaving.heir, peers.member, ledger.gate
        self._performer = Performer(settings, self.table, self.tasks, ledger, self.counts, self.watches, self.feed)
        self.after_renewal: list[Callable[[], None]] = [self._nudge]
        """What is due when the lease was just renewed: the next renewal is farthest away then."""
        self.ended, self._waiters = self._performer.ended, itertools.count(1)
        self._queue: deque[tuple[Slot, ev.Event]] = deque()
        self._feeding = False
        self._stalled: set[CallId] = set()
        self._alone, self._held = Alone(settings.node_id), Home(store, heartbeat, World())
        self._rehearsed = self._held._replace(drops=True)

    async def open(self) -> None:
        """Connect the store, take the node lease, start looking after what expires. Raises NodeNameTaken."""
        self.leaving.opened()
        await self.store.open()
        self.heartbeat.stats = lambda: self.stats().dump()
        await self.heartbeat.open()
        self.heartbeat.on_renewed = self._renewed
        self.eviction.open()
        self.tasks.spawn(self._sweep())
        if isinstance(self.heartbeat, Heartbeat):
            self.tasks.spawn(self.orphans.run())

    async def drain(self, patience: float, parked: bool = True) -> None:
        """Leave the fleet: take no new call, hand off what others may carry on, and give the rest `patience` seconds:
        rounds that run and, if `parked`, calls that only this process can carry on. `close` comes next."""
        await self.leaving.drain(patience, parked)

    async def end(self) -> None:
        """Tear every frame down. Callers see their handlers cancelled, clients are told so; effects that run come to
        their end first."""
        await self.drain(0.0)
        self.leaving.closed = True
        await self.tasks.landed()
        for slot in self.table:
            self._drop(slot, fx.Reason.UNAVAILABLE, self.leaving.parting(slot))

    async def close(self) -> None:
        """End what runs, then give the lease back."""
        await self.end()
        await self.tasks.close()
        await self.peers.close()
        await self.heartbeat.close()
        await self.store.close()

    async def start(self, entrance: Entrance, carrier: Carrier, call_id: CallId | None = None) -> Answer:
        """Enter a handler for a new call, which a router may have named, and wait for the reply to round 1.

        Raises:
            LimitExceeded: this node, or this principal, has as many calls as it may; nothing was started.
        """
        if (answer := self.leaving.instead(call_id)) is not None:
            return answer
        if call_id is not None and self.table.get(call_id) is not None:
            return fx.Refusal(fx.Reason.UNAVAILABLE, detail=_TWICE)
        self.eviction.admit(entrance.principal)
        if entrance.strategy == "replay":
            home = Home(Passing(), self._alone, passing.begun(), True)
        else:
            home = self._home(entrance)
        slot = self.table.add(self._slot(call_id or self.peers.mint(), entrance, home))
        waiter = Waiter(next(self._waiters))
        return await self._wait(slot, ev.Start(waiter), Arrival(carrier, _future()))

    async def retry(self, claims: Claims, answers: Mapping[str, Any], entrance: Entrance, carrier: Carrier) -> Answer:
        """Answer a request that brings a verified token; `answers` are its raw answers by key.

        Raises:
            MalformedAnswer: an answer is not of the kind that its question asks for; nothing was consumed.
        """
        if (answer := self.leaving.elsewhere(claims.call)) is not None:
            return answer
        given, slot = answers_of.given(answers), self.table.get(claims.call)
        if slot is None:
            slot = self.table.add(self._slot(claims.call, entrance, self._home(entrance)))
        waiter, held = Waiter(next(self._waiters)), self.heartbeat.lease
        event = ev.Retry(waiter, claims.round, claims.epoch, claims.mark, claims.node, given, held)
        return await self._wait(slot, event, Arrival(carrier, _future(), raw=answers))

    async def replay(
        self, carried: Carried, answers: Mapping[str, Any], entrance: Entrance, carrier: Carrier
    ) -> Answer:
        """Answer a request whose verified token carries the whole call (strategy replay). Raises as `retry`, and

        JournalError, SealError: what the token carries can't be read here; nothing was done.
        """
        if (answer := self.leaving.elsewhere(carried.call, CARRIED)) is not None:
            return answer
        self.eviction.admit(entrance.principal)
        given = answers_of.given(answers)
        records, chance, mark = passing.arrived(carried, self.payloads.sealer)
        waiter, held = Waiter(next(self._waiters)), self._alone.lease
        home = Home(records, self._alone, chance, True)
        slot = self.table.add(self._slot(carried.call, entrance, home, f"{carried.call}/{waiter}"))
        event = ev.Retry(waiter, carried.round, carried.epoch, mark, held.node, given, held)
        return await self._wait(slot, event, Arrival(carrier, _future(), raw=answers))

    def _home(self, entrance: Entrance) -> Home:
        """What a call that is held here stands on."""
        return self._rehearsed if self.settings.rehearse and entrance.reentrant else self._held

    def _slot(self, call: CallId, entrance: Entrance, home: Home, place: str = "") -> Slot:
        held, ttl = home.beat.lease, entrance.lifetime or self.settings.token_ttl
        return Slot(Call(call, held.node, held.inc, entrance.reentrant, ttl), entrance, self, home, place)

    def stats(self) -> Stats:
        """This node's load, as its lease and its routers tell it."""
        held, address = self.heartbeat.lease, self.heartbeat.address
        seal = self.peers.trust.seal(held.node, held.boot, address)
        return Stats(os.getpid(), *self.table.load(), VERSION, STARTED, seal)

    async def _wait(self, slot: Slot, event: ev.Start | ev.Retry, arrival: Arrival) -> Answer:
        began, answer = clock.now(), None
        try:
            if isinstance(event, ev.Retry):
                arrival.parsed = answers_of.parsed(slot, event.round, arrival.raw)
            slot.comes(event.waiter, arrival)
            self.feed(slot, event)
            answer = await arrival.future
            return answer
        except asyncio.CancelledError:
            if slot.goes(event.waiter) is not None:
                self.feed(slot, ev.Left(event.waiter))
                slot.carry_on()
            raise
        finally:
            self.watches.answered(slot, event, answer, clock.now() - began)

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
        was = slot.call.phase
        try:
            slot.call, effects = step(slot.call, event, clock.now())
            for effect in effects:
                self._performer.perform[type(effect)](slot, effect)
            self.watches.stepped(slot, was, event, effects)
        except Exception:
            # A bug costs the call that met it, never the node; and nobody is left waiting.
            logger.exception("call %s met a bug here: its frame is dropped", prefix(slot.call.id), extra=about(slot))
            self.counts["broken"] += 1
            self._drop(slot, fx.Reason.LOST, "this node is at fault")
            self.leaving.stepped(slot, was, event)
            return
        if was is _REBUILDING:
            self._gate.left(slot)
        if was is _CLAIMING:
            self.eviction.claimed()
        self.table.stepped(slot, was)
        if slot.call.stalled:
            self._stalled.add(slot.call.id)
        if slot.home.drops and slot.call.phase is _PARKED and was is _PARKING:
            self._queue.append((slot, ev.Evict("rehearsed")))
        elif self.leaving.on:
            self.leaving.stepped(slot, was, event)

    def bury(self, frame: Frame) -> None:
        """Silence a frame and see its handler to its end."""
        self.tasks.bury(frame)

    def shield(self, effect: Coroutine[Any, Any, None], context: contextvars.Context) -> asyncio.Task[None]:
        """Run an effect that nobody's leaving cuts off."""
        return self.tasks.shield(effect, context)

    def rebuilt(self, slot: Slot) -> None:
        """A slot's frame stands where its journal ends."""
        self._performer.rebuilt(slot)

    def _drop(self, slot: Slot, reason: fx.Reason, detail: str) -> None:
        """Let go of a call, whatever its state; whoever waits is told why. What the store still says of it comes too
        late: nothing is claimed, and no handler entered, for a call that went."""
        for waiter in list(slot.arrivals):
            self._performer.answer(slot, waiter, fx.Refusal(reason, slot.call.round, detail))
        self._performer.forget(slot, fx.Forget())
        slot.call = gone(slot.call, "dropped").call

    def _nudge(self) -> None:
        """The store answers: send what was left unsent, and let go what waited for a valid lease. Of a parked call
        nothing does."""
        held = self.heartbeat.lease
        for busy in self.table:
            call = busy.call
            if (call.phase is not Phase.PARKED or call.intents) and busy.home.beat is self.heartbeat:
                self.feed(busy, ev.Renewed(held))
        stalled, self._stalled = self._stalled, set()
        for call_id in stalled:
            if (slot := self.table.get(call_id)) is not None:
                self.feed(slot, ev.Nudged())

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            for slot, event in self.table.due(clock.now()):
                self.feed(slot, event)
            self._gate.relieve(clock.now())
            await self.eviction.look()
            if isinstance(self.heartbeat, Alone):
                self._renewed()

    def _renewed(self) -> None:
        for action in self.after_renewal:
            action()


def _future() -> asyncio.Future[Answer]:
    return asyncio.get_running_loop().create_future()
