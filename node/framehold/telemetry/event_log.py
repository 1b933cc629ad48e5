"""The events of this node, for operators: they are written to the event log of the fleet.

The law: an event has no content and no user, and of a call only the prefix of its id. Nothing floods the log: if
thousands of events of one kind come at once, as when a node dies, the first ones are written one by one and the others
as a number. No step of a call waits for the log.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.call import Phase
from framehold_core.errors import StoreUnavailable
from framehold_core.ids import prefix
from framehold_core.lease import Lease
from framehold_core.requests import Reply, Verdict
from framehold_fleet.members.store_health import says_of
from framehold_fleet.models.events import EventKind, EventView, LogEntry, TakeoverView

from ..engine.heartbeat import Alone, Heartbeat
from ..engine.observer import Observer
from ..engine.slot import Slot
from ..engine.takeovers import CLAIMED, OF_OTHERS, Change, Takeover

MAX_SINGLE_EVENTS, BURST_SECONDS = 20, 1.0
"""How many events of one kind are written one by one within so many seconds."""
_NOT_REBUILT = (Phase.LOOKING, Phase.CLAIMING, Phase.REBUILDING)


@dataclass(slots=True)
class _EventBurst:
    """The events of one kind in the BURST_SECONDS after `since`, on the node's clock: the store's may be set meanwhile.
    `logged` counts those that were recorded one by one, `withheld` the others."""

    since: float = -math.inf
    logged: int = 0
    withheld: int = 0


class NodeEvents(Observer):
    """The events and takeovers of one process; `write` takes each entry with its key."""

    def __init__(self, heartbeat: Heartbeat | Alone, write: Callable[[str, LogEntry], None]) -> None:
        self._heartbeat, self._write = heartbeat, write
        self._bursts: dict[str, _EventBurst] = {}
        self._events = itertools.count(1)
        self._silent = self._registered = False

    async def watch(self) -> None:
        """Write the number of withheld events of each burst soon after its end, until cancelled."""
        while True:
            await asyncio.sleep(BURST_SECONDS)
            self.end_bursts()

    def end_bursts(self) -> None:
        """Write the number of withheld events of each burst that is over."""
        now = self._heartbeat.clock.now()
        for kind, burst in self._bursts.items():
            if now - burst.since >= BURST_SECONDS:
                self._end_burst(kind, burst)

    # ---- events of the observed calls

    def happened(self, kind: str, text: str, slot: Slot | None = None, lost: int = 0) -> None:
        """Record one event, or count it if there are too many of its kind."""
        now = self._heartbeat.clock.now()
        burst = self._bursts.setdefault(kind, _EventBurst())
        if now - burst.since >= BURST_SECONDS:
            self._end_burst(kind, burst)
            burst.since, burst.logged = now, 0
        if burst.logged >= MAX_SINGLE_EVENTS:
            burst.withheld += 1
            return
        burst.logged += 1
        self._add(now, kind, text, slot, lost=lost)

    def store_replied(self, op: str, slot: Slot | None, reply: Reply | StoreUnavailable, seconds: float) -> None:
        """Record events of the node lease."""
        if slot is None:
            self._heartbeat_ended(reply)

    def dropped(self, slot: Slot, cause: str) -> None:
        """A frame was dropped. Record it if another node had taken its call over."""
        if cause in ("fenced", "stale"):
            self.happened(EventKind.FENCED, _FENCED, slot)

    def stepped(self, slot: Slot, was: Phase, event: ev.Event, effects: Sequence[fx.Effect]) -> None:
        """A call took a step. Record an event if this release can't carry it on."""
        if isinstance(event, ev.Diverged | ev.Unreadable) and was in _NOT_REBUILT:
            self.happened(EventKind.DIVERGED, _STRAYED, slot)

    def takeover(self, slot: Slot, takeover: Takeover, change: Change) -> None:
        """Write a takeover of a call that another process ran, and record its begin and its end."""
        if takeover.reason not in OF_OTHERS:
            return
        view = _view(takeover, self._heartbeat.lease)
        self._write(f"{view.call} {view.epoch} {view.asked}", LogEntry(takeover=view))
        before = _FROM[takeover.reason].format(takeover.from_node)
        if change == CLAIMED:
            self.happened(EventKind.TAKEOVER, before + _ON, slot)
        elif takeover.outcome == "recovered":
            self.happened(EventKind.RECOVERED, _recovered(takeover), slot)
        elif takeover.outcome == "lost":
            self.happened(EventKind.LOST, before + _LOST, slot)
        elif takeover.outcome == "stuck":
            self.happened(EventKind.STUCK, _STUCK, slot)

    def _heartbeat_ended(self, reply: Reply | StoreUnavailable) -> None:
        """A heartbeat has ended: with a reply of the store, or without one."""
        if isinstance(reply, StoreUnavailable):
            if not self._silent:
                self._silent = True
                self.happened(EventKind.STORE_SILENT, _silence(reply))
            return
        if self._silent:
            self._silent = False
            self.happened(EventKind.STORE_BACK, _BACK)
        if reply.verdict is Verdict.OK:
            self._registered = True
        elif reply.verdict is Verdict.MISSING:
            self.happened(EventKind.LEASE_LAPSED, _LAPSED)
        elif self._registered:
            self.happened(EventKind.NODE_LOST, _TAKEN)

    # ---- the entries of the log

    def _end_burst(self, kind: str, burst: _EventBurst) -> None:
        """Record the number of withheld events of a burst that is over."""
        withheld, burst.withheld = burst.withheld, 0
        if withheld:
            self._add(burst.since, kind, f"{withheld} more likewise, within {BURST_SECONDS:g} s", None, withheld)

    def _add(self, moment: float, kind: str, text: str, slot: Slot | None, count: int = 1, lost: int = 0) -> None:
        held, at = self._heartbeat.lease, self._heartbeat.clock.at(moment)
        event_id = f"{held.boot}-{next(self._events):09d}"
        event = EventView(id=event_id, at=at, node_id=held.node, kind=str(kind), text=text, count=count, lost=lost)
        if slot is not None:
            call, frame = slot.call, slot.frame
            epoch = None if frame is None else max(call.epoch, frame.epoch)
            about = {"call": prefix(call.id), "tool": slot.tool, "epoch": epoch, "round": call.round}
            event = EventView.model_validate({**dict(event), **about})
        self._write(event_id, LogEntry(event=event))


def _view(takeover: Takeover, held: Lease) -> TakeoverView:
    """A takeover as the API shows it; this process holds the lease."""
    began = takeover.clock_began
    claimed, rebuilt, resumed = (
        None if at is None else began + at for at in (takeover.claimed, takeover.rebuilt, takeover.resumed)
    )
    return TakeoverView(
        call=prefix(takeover.call_id),
        tool=takeover.tool,
        reason=cast("Literal['died', 'released', 'restarted']", takeover.reason),
        from_node=takeover.from_node,
        from_boot=takeover.from_boot,
        to_node=held.node,
        to_boot=held.boot,
        epoch=takeover.epoch,
        asked=began + takeover.asked,
        claimed=claimed,
        replayed=rebuilt,
        resumed=resumed,
        outcome=takeover.outcome,
        kept_code=takeover.kept_code if takeover.slot is None else takeover.slot.handler.enters_kept,
    )


def _recovered(takeover: Takeover) -> str:
    if takeover.resumed is None:
        return "the call goes on, and nobody waits for it now: whoever comes next hears what it came to"
    return (
        f"the call goes on: its client has its reply {takeover.resumed - takeover.asked:.2f} s after its request came"
    )


_FROM = {
    "died": "node {} is gone",
    "released": "node {} handed the call off",
    "restarted": "the former process of node {} is gone",
}
_ON = "; the call is carried on here, its handler entered again with what is recorded"
_LOST = (
    ", and the handler is not marked @framehold.reentrant: it was not entered again, and its client is told that the "
    "call is lost"
)
_STUCK = "its handler ended one process after another: it is not entered again, and its client is told"
_STRAYED = (
    "the call can't be continued by this code: its answers were not taken, its journal is kept for the code that wrote "
    "it, its client is told; the log says what differs"
)
_FENCED = "another node runs the call by now: the frame here was dropped, and nothing that it still writes counts"
_SILENT = "; parked calls go on until the node lease is over, then 503; frames stay"
_BACK = "the store answers again"
_TAKEN = "another process is registered under this node's name: no call runs here any more"
_LAPSED = "the node lease lapsed, and is taken anew; frames are verified with the store before they run again"


def _silence(trouble: StoreUnavailable) -> str:
    says = says_of(trouble)
    return (f"the store answers with an error ({says})" if says else "the store does not answer") + _SILENT
