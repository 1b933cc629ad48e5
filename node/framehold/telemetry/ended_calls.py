"""The calls that end on this node, for operators: each is written to a stream of the fleet, where it outlives the node.

The law: no content and no user; of an exception the class and the place. No call waits for it. Calls that failed have a
stream of their own: a crowd of good calls does not drive them out.

An end here need not be the call's: one that diverged may go on under other code. When its frame is rebuilt here after
all, an entry without an outcome takes the end back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from opentelemetry import context as contexts

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.call import Phase
from framehold_core.ending import ANSWERS, COMPLETED, FAILED, Ending
from framehold_core.ids import CallId

from ..engine.heartbeat import Alone, Heartbeat
from ..engine.observer import Observer
from ..engine.slot import Slot
from ..frame.span import trace_id

MAX_REMEMBERED = 1000
"""How many calls are remembered that did not complete here, so that none is written twice for the same end."""
_IDLE, _LOOKING, _REBUILDING = Phase.IDLE, Phase.LOOKING, Phase.REBUILDING
_JSON = json.JSONEncoder(separators=(",", ":"))
_TAKEN_BACK = Ending("")  # type: ignore[arg-type]


class EndedCall(NamedTuple):
    """A call that ended on `node`. `began` and `ended` are in seconds since 1970; `rounds` counts the rounds that were
    answered: two sets of questions and a result make three. `trace` is the trace of the round in which it ended, as hex
    digits; empty if that was not traced."""

    call: CallId
    tool: str
    node: str
    ending: Ending
    rounds: int
    began: float
    ended: float
    reentrant: bool
    replayed: bool
    trace: str = ""

    def encoded(self) -> bytes:
        """The call as an `EndedCallView` in JSON."""
        ending = self.ending
        view = {
            "call_id": self.call,
            "tool": self.tool,
            "node_id": self.node,
            "outcome": ending.how,
            "error": ending.error,
            "place": ending.place,
            "rounds": self.rounds,
            "reentrant": self.reentrant,
            "replayed": self.replayed,
            "began": self.began,
            "ended": self.ended,
            "seconds": max(0.0, self.ended - self.began),
            "trace_id": self.trace,
        }
        return _JSON.encode(view).encode()


Write = Callable[[str, EndedCall], None]
"""Writes a call soon, under its id."""


class EndedCallWriter(Observer):
    """Passes the calls that end on one node to `failed`, or to `others`."""

    def __init__(self, heartbeat: Heartbeat | Alone, others: Write, failed: Write) -> None:
        self._heartbeat, self._others, self._failed = heartbeat, others, failed
        self._remembered: dict[CallId, Ending] = {}

    def stepped(self, slot: Slot, was: Phase, event: ev.Event, effects: Sequence[fx.Effect]) -> None:
        """Write the call if it ended by this step."""
        phase = slot.call.phase
        if phase is _IDLE or phase is _LOOKING:
            for effect in effects:
                if type(effect) is fx.Forget and effect.ending is not None:
                    self._end(slot, effect.ending, event)
        elif was is _REBUILDING and phase is not _REBUILDING and self._remembered.pop(slot.call.id, None) is not None:
            self._write(slot, _TAKEN_BACK, slot.began)

    round_stepped = stepped

    def _end(self, slot: Slot, ending: Ending, event: ev.Event) -> None:
        call = slot.call.id
        # Another retry of a call that had ended before gets the same answer.
        again = self._remembered.pop(call, None) == ending
        if ending != COMPLETED:
            self._remembered[call] = ending
            if len(self._remembered) > MAX_REMEMBERED:
                del self._remembered[next(iter(self._remembered))]
        if not again:
            # Of a call that was found in the store, the frame was never here.
            found = event.stored if isinstance(event, ev.Found | ev.WriteRefused) else None
            self._write(slot, ending, slot.began if found is None else found.record.created)

    def _write(self, slot: Slot, ending: Ending, began: float) -> None:
        held, call = self._heartbeat, slot.call
        # In each call's last round: to see that a context is empty is cheaper than to look for a trace in it.
        ended = EndedCall(
            *(call.id, slot.handler.tool, held.lease.node, ending, call.round + (ending.how in ANSWERS), began),
            *(held.clock.time(), call.reentrant, slot.replayed, trace_id() if contexts.get_current() else ""),
        )
        (self._failed if ending.how in FAILED or ending is _TAKEN_BACK else self._others)(call.id, ended)
