"""The loop of one node's engine: events in, core's step, effects performed, replies out.

    1. an event of a call is fed: by a request, a frame, the store, or a timer. All events wait in one queue
    2. core's `step` takes it, and the new state of the call replaces the old one before anything else runs
    3. the effects of the step are performed in order, each by the function for its type: a handler is entered, answers
       are delivered, a write leaves for the store, a request gets its reply (`Performer.perform`)
    4. observers are told, then the parts that follow the phases of calls

An effect may feed an event at once (a store in memory replies at once). That event waits until 4 is done: steps are
never nested. A reply of the store to a write that is no longer in flight changes nothing: core has no effect for it.

The law: a bug costs only the call that meets it, never the node. The frame of that call is dropped, and its waiting
requests are refused.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.call import Phase
from framehold_core.clock import Clock
from framehold_core.continuation import step
from framehold_core.ids import CallId, prefix

from .observer import ORDINARY, ROUND, Observers
from .slot import Slot
from .table import CallTable

logger = logging.getLogger(__name__)

Feed = Callable[[Slot, ev.Event], None]
"""Takes one event of one call."""
Perform = Callable[[Slot, Any], None]
"""Performs one effect of a step."""

_LEFT = (Phase.IDLE, Phase.LOOKING, Phase.STRANDED)
"""The phases in which the write of a stopped call is no longer in flight."""
# Looked up once: each step compares with them, and an attribute of an enum is slow.
_PARKING, _PARKED, _RUNNING = Phase.PARKING, Phase.PARKED, Phase.RUNNING
_CLAIMING, _REBUILDING, _STRANDED, _HEALING = Phase.CLAIMING, Phase.REBUILDING, Phase.STRANDED, Phase.HEALING


class Loop:
    """The queue of one node, and the steps of its calls. `attach` gives it what performs; nothing may be fed before."""

    def __init__(self, table: CallTable, clock: Clock, observers: Observers, counts: Counter[str]) -> None:
        self._table, self._clock, self._observers, self._counts = table, clock, observers, counts
        self._waiting: deque[tuple[Slot, ev.Event]] = deque()
        self._stepping = False
        self._perform: Mapping[type[Any], Perform] = {}
        self._drop: Callable[[Slot, fx.Refusal], None] = _unattached
        self._rebuilt: Callable[[Slot], None] = _unattached
        self._claimed: Callable[[], None] = _unattached
        # A dict, since it keeps the order.
        self._stalled: dict[CallId, None] = {}
        self.drain: Callable[[Slot, Phase, ev.Event], None] | None = None
        """Is told each step while the node drains."""

    def attach(
        self,
        perform: Mapping[type[Any], Perform],
        drop: Callable[[Slot, fx.Refusal], None],
        rebuilt: Callable[[Slot], None],
        claimed: Callable[[], None],
    ) -> None:
        """Step events from now on. `perform` has the function for each type of effect. `drop` removes a call that met a
        bug, and refuses its requests. `rebuilt` is told that a frame is no longer rebuilt, `claimed` that a claim has
        ended."""
        self._perform, self._drop, self._rebuilt, self._claimed = perform, drop, rebuilt, claimed

    def feed(self, slot: Slot, event: ev.Event) -> None:
        """Queue an event. Then step all queued events, unless this is called within a step."""
        self._waiting.append((slot, event))
        if self._stepping:
            return
        self._stepping = True
        try:
            while self._waiting:
                slot, event = self._waiting.popleft()
                self._step(slot, event)
        finally:
            self._stepping = False

    def store_is_back(self) -> None:
        """The store answers: feed it to the calls whose writes it did not take. They are sent again."""
        stalled, self._stalled = self._stalled, {}
        for call_id in stalled:
            if (slot := self._table.get(call_id)) is not None:
                self.feed(slot, ev.StoreBack())

    def _step(self, slot: Slot, event: ev.Event) -> None:
        was = slot.call.phase
        try:
            slot.call, effects = step(slot.call, event, self._clock.now())
            move, perform = (was, slot.call.phase), self._perform
            is_rounds = ROUND.get(move) == len(effects) and slot.notes_step(was, event, effects[-1])
            for effect in effects:
                perform[type(effect)](slot, effect)
            if is_rounds:
                if self._observers.round_stepped.listeners:
                    self._observers.round_stepped(slot, was, event, effects)
            elif move not in ORDINARY:
                self._observers.stepped(slot, was, event, effects)
            if slot.stopping is not None and slot.call.phase in _LEFT and not slot.stopping.done():
                # Whoever stops the handler of this call is told what has ended it.
                slot.stopping.set_result(event)
        except Exception:
            self._met_a_bug(slot, was, event)
            return
        if was is _REBUILDING:
            self._rebuilt(slot)
        elif was is _CLAIMING:
            self._claimed()
        elif (was is _STRANDED or was is _HEALING) and slot.call.phase is _RUNNING and slot.frame is not None:
            # What the handler asked while the call waited for the store is asked now.
            slot.frame.settle()
        if was is _PARKED or slot.call.phase is _PARKED:
            self._table.stepped(slot, was)
        if slot.call.outbox.stalled:
            self._stalled[slot.call.id] = None
        if slot.backing.drops and slot.call.phase is _PARKED and was is _PARKING:
            self.feed(slot, ev.Evict("rehearsed"))
        elif self.drain is not None:
            self.drain(slot, was, event)

    def _met_a_bug(self, slot: Slot, was: Phase, event: ev.Event) -> None:
        logger.exception("call %s met a bug here: its frame is dropped", prefix(slot.call.id), extra=slot.log_fields)
        self._counts["broken"] += 1
        self._drop(slot, fx.Refusal(fx.Reason.LOST, slot.call.round, "this node is at fault"))
        if self.drain is not None:
            self.drain(slot, was, event)


def _unattached(*_: Any) -> None:
    raise RuntimeError("no runtime is attached to this loop: an event was fed too early, and was not stepped")
