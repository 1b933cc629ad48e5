"""What happened on this node lately, for operators.

The law: it only remembers, and not more than the last KEPT. No content and no user is in it, and of a call no more than
the prefix of its id. Nothing floods it: of what happens by the thousand, as when a node dies, some is told call by call
and the rest as a number.

Events and changes of takeovers are numbered together, from 1 on. Who was told up to a number asks for what came after:

    1. a router asks for all, and is told `seq`, the last number
    2. something happens, a takeover goes on: each takes the next number
    3. it asks for what came after its `seq`, and is told these two, the takeover as it is now
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.call import Phase
from framehold_core.errors import StoreUnavailable
from framehold_core.ids import prefix
from framehold_core.requests import Reply, Verdict
from framehold_router.api.about_events import EventView, Happened, Kind

from .heartbeat import Alone, Heartbeat
from .slots import Slot
from .takeovers import Takeover, Takeovers
from .watch import Watch

KEPT = 500
"""Events that are remembered."""
SINGLY, WITHIN = 20, 1.0
"""How many of one kind are told one by one, within so many seconds."""
_IDLE = Phase.IDLE


@dataclass(slots=True)
class _Burst:
    """Events of one kind within WITHIN seconds from `since`: how many were told, and how many not."""

    since: float = 0.0
    told: int = 0
    more: int = 0


class Chronicle(Watch):
    """The events and takeovers of one process."""

    def __init__(self, heartbeat: Heartbeat | Alone) -> None:
        self._heartbeat = heartbeat
        self._events: deque[tuple[int, EventView]] = deque(maxlen=KEPT)
        self._bursts: dict[str, _Burst] = {}
        self._takeovers = Takeovers(self._number)
        self._seq = self._fenced = 0
        self._silent = self._registered = False

    def told(self, after: int = 0) -> Happened:
        """What is remembered and came after the number `after`."""
        now = time.time()
        for kind, burst in self._bursts.items():
            if now - burst.since >= WITHIN:
                self._close(kind, burst)
        held = self._heartbeat.lease
        return Happened(
            node_id=held.node,
            boot=held.boot,
            events=tuple(event for number, event in self._events if number > after),
            takeovers=self._takeovers.views(held.node, after),
            fenced=self._fenced,
            seq=self._seq,
        )

    # ---- news

    def happened(self, kind: str, text: str, slot: Slot | None = None) -> None:
        """One event."""
        now = time.time()
        burst = self._bursts.setdefault(kind, _Burst())
        if now - burst.since >= WITHIN:
            self._close(kind, burst)
            burst.since, burst.told = now, 0
        if burst.told >= SINGLY:
            burst.more += 1
            return
        burst.told += 1
        self._add(now, kind, text, slot)

    def asked_store(self, op: str, slot: Slot | None, reply: Reply | StoreUnavailable, seconds: float) -> None:
        """Count what was refused because another owner, epoch or history stands there."""
        if slot is None:
            self._beat(reply)
        elif isinstance(reply, Reply) and reply.verdict is Verdict.FENCED:
            self._fenced += 1

    def dropped(self, slot: Slot, cause: str) -> None:
        """A frame of which another one is known to have taken its call went."""
        if cause in ("fenced", "stale"):
            self.happened(Kind.FENCED, _FENCED, slot)

    def stepped(self, slot: Slot, was: Phase, event: ev.Event, effects: Sequence[fx.Effect]) -> None:
        """A call took a step: of most there is nothing to tell."""
        if was is _IDLE:
            if isinstance(event, ev.Retry):
                self._takeovers.looked(slot)
        elif was in _UNDECIDED:
            self._decided(slot, event, effects)
        elif self._takeovers.under_way and slot in self._takeovers.under_way:
            if isinstance(event, ev.Diverged | ev.Unreadable):
                self.happened(Kind.DIVERGED, _STRAYED, slot)
            takeover = self._takeovers.stepped(slot, event, effects)
            if takeover is not None and takeover.outcome == "recovered":
                self.happened(Kind.RECOVERED, _recovered(takeover), slot)

    def _decided(self, slot: Slot, event: ev.Event, effects: Sequence[fx.Effect]) -> None:
        """A look at a record, or a claim, was answered."""
        if isinstance(event, ev.Found):
            self._takeovers.found(slot, event, effects)
        elif isinstance(event, ev.Claimed):
            takeover = self._takeovers.claimed(slot)
            if takeover is not None:
                self.happened(Kind.TAKEOVER, _FROM[takeover.reason].format(takeover.from_node) + _ON, slot)
        elif isinstance(event, ev.Refused):
            takeover = self._takeovers.refused(slot, event.verdict)
            if takeover is not None and takeover.outcome == "lost":
                self.happened(Kind.LOST, _FROM[takeover.reason].format(takeover.from_node) + _LOST, slot)
            elif event.verdict is Verdict.STUCK:
                self.happened(Kind.STUCK, _STUCK, slot)
        elif isinstance(event, ev.StoreDown | ev.Unreadable):
            self._takeovers.undecided(slot)

    def _beat(self, reply: Reply | StoreUnavailable) -> None:
        """A heartbeat was answered, or not."""
        if isinstance(reply, StoreUnavailable):
            if not self._silent:
                self._silent = True
                self.happened(Kind.STORE_SILENT, _SILENT)
            return
        if self._silent:
            self._silent = False
            self.happened(Kind.STORE_BACK, _BACK)
        if reply.verdict is Verdict.OK:
            self._registered = True
        elif reply.verdict is Verdict.MISSING:
            self.happened(Kind.LEASE_LAPSED, _LAPSED)
        elif self._registered:
            self.happened(Kind.NODE_LOST, _TAKEN)

    # ---- what is kept

    def _close(self, kind: str, burst: _Burst) -> None:
        """Tell how many more there were of a burst that is over."""
        more, burst.more = burst.more, 0
        if more:
            self._add(burst.since, kind, f"{more} more likewise, within {WITHIN:g} s", None)

    def _add(self, at: float, kind: str, text: str, slot: Slot | None) -> None:
        number, held = self._number(), self._heartbeat.lease
        event = EventView(id=f"{held.boot}-{number:09d}", at=at, node_id=held.node, kind=str(kind), text=text)
        if slot is not None:
            call, frame = slot.call, slot.frame
            epoch = None if frame is None else max(call.epoch, frame.epoch)
            about = {"call": prefix(call.id), "tool": slot.tool, "epoch": epoch, "round": call.round}
            event = EventView.model_validate({**dict(event), **about})
        self._events.append((number, event))

    def _number(self) -> int:
        self._seq += 1
        return self._seq


def _recovered(takeover: Takeover) -> str:
    if takeover.resumed is None:
        return "the call goes on, and nobody waits for it now: whoever comes next hears what it came to"
    return f"the call goes on: its client has its reply {takeover.resumed - takeover.asked:.2f} s after it came"


_UNDECIDED = (Phase.LOOKING, Phase.CLAIMING)
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
_SILENT = "the store does not answer; parked calls go on until the node lease is over, then 503; frames stay"
_BACK = "the store answers again"
_TAKEN = "another process is registered under this node's name: no call runs here any more"
_LAPSED = "the node lease lapsed, and is taken anew; frames are verified with the store before they run again"
