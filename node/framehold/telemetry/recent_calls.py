"""The calls that ended on this node in the last hour, for operators.

The law: it only remembers, and no more than MAX_CALLS of those that completed and MAX_CALLS of the others, the newest:
a crowd of good calls does not drive out the bad ones. It has no content and no user; of an exception it has the class
and the place.

A call is in it once, as it ended last. An end here need not be the call's: one that diverged may go on under other
code. When its frame is rebuilt here after all, it is no longer listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from opentelemetry import context as contexts

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.call import Phase
from framehold_core.clock import Clock
from framehold_core.ending import ANSWERS, COMPLETED, Ending
from framehold_core.ids import CallId

from ..engine.observer import Observer
from ..engine.slot import Slot
from ..frame.span import trace_id

MAX_CALLS = 1000
"""How many calls are remembered that completed, and how many that did not."""
KEPT_SECONDS = 3600.0
"""For how long an end is listed."""
_IDLE, _LOOKING, _REBUILDING = Phase.IDLE, Phase.LOOKING, Phase.REBUILDING


class EndedCall(NamedTuple):
    """A call that ended here. `began` and `ended` are in seconds since 1970; `rounds` counts the rounds that
    were answered: two sets of questions and a result make three. `trace` is the trace of the round in which it ended,
    as hex digits; empty if that was not traced."""

    call: CallId
    tool: str
    ending: Ending
    rounds: int
    began: float
    ended: float
    reentrant: bool
    replayed: bool
    trace: str = ""


class RecentCalls(Observer):
    """The calls that ended on one node, whose clock is `clock`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._completed: dict[CallId, EndedCall] = {}
        self._others: dict[CallId, EndedCall] = {}

    def __iter__(self) -> Iterator[EndedCall]:
        """All that are listed, in no order."""
        since = self._clock.time() - KEPT_SECONDS
        for kept in (self._completed, self._others):
            yield from (item for item in kept.values() if item.ended >= since)

    def stepped(self, slot: Slot, was: Phase, event: ev.Event, effects: Sequence[fx.Effect]) -> None:
        """Remember the call if it ended by this step."""
        phase = slot.call.phase
        if phase is _IDLE or phase is _LOOKING:
            for effect in effects:
                if type(effect) is fx.Forget and effect.ending is not None:
                    self._end(slot, effect.ending, event)
        elif was is _REBUILDING and phase is not _REBUILDING:
            self._others.pop(slot.call.id, None)

    def _end(self, slot: Slot, ending: Ending, event: ev.Event) -> None:
        call, began = slot.call, slot.began
        if isinstance(event, ev.Found | ev.WriteRefused) and event.stored is not None:
            # The frame was never here.
            began = event.stored.record.created
        kept = self._completed if ending == COMPLETED else self._others
        before = self._others.pop(call.id, None)
        if before is not None and before.ending == ending:
            # Another retry of a call that had ended before gets the same answer.
            kept[call.id] = before
            return
        answered = call.round + (ending.how in ANSWERS)
        about = (call.id, slot.handler.tool, ending, answered, began, self._clock.time(), call.reentrant, slot.replayed)
        # In each call's last round: to see that a context is empty is cheaper than to look for a trace in it.
        kept[call.id] = EndedCall(*about, trace_id() if contexts.get_current() else "")
        while len(kept) > MAX_CALLS:
            del kept[next(iter(kept))]
