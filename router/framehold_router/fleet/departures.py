"""Nodes that joined and left, as this router saw it: the last heartbeat of each, and when its lease was found gone.

The law: only nodes of this fleet are listed; every list is bounded; no decision about a call uses these data. Times are
in seconds since 1970 on the clock of this router. A "look" is one read of the leases from the store. `detected` is the
time of the look that found the lease gone. The change feed reports a lease that is given back at once. A lease that
runs out is found by the next look, up to one poll later.

The time of a heartbeat is stored nowhere; a look sees only that the beat is higher than at the look before. The time is
computed from the expiry of the lease, which is one TTL after the renewal on the clock of the store. The offset between
`expires` and the time of the heartbeat on our clock is the least difference `now - expires` of all looks, because a
look can be late but never early.

    1. a node registers or begins to drain: the change feed wakes the router within milliseconds, so the offset is exact
    2. a node renews, which causes no notice: a look 1.5 s later computes the time of the renewal from `expires`
    3. a clock was set forward or back: the computed time lies outside the two looks between which the beat went up, and
       is moved to the nearer of them

So the time of a heartbeat is exact to some milliseconds if the node joined while this router ran, and to one poll
otherwise. The first heartbeat of a node that was there before this router is taken to be at the first look.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from framehold_core.ids import Boot, NodeId
from framehold_core.lease import NodeRecord

from ..models.events import EventView, Kind
from .membership import DRAINING, STRANGE, Member

MAX_REMEMBERED = 200
"""Departures that are remembered at most, and events."""
GIVEN_BACK = 2.0
"""A lease lasts for three pauses between heartbeats. If it is gone within this many pauses after the last heartbeat,
the node gave it back."""


class Departure(NamedTuple):
    """The end of one life of a node: of one process with its name. `state` and `parked` (the number of parked calls)
    are from its last lease. `left`: it gave its lease back or drained; otherwise the lease ran out."""

    node: NodeId
    boot: Boot
    state: str
    last_heartbeat: float
    detected: float
    left: bool
    parked: int | None = None


@dataclass(slots=True)
class _Life:
    """One life of a node. `heartbeat`: when it last renewed its lease. `pause`: seconds between its last two renewals.
    `apart`: the least difference between the time of a look and `expires`, in seconds."""

    boot: Boot
    state: str
    beat: int
    expires: float
    apart: float
    heartbeat: float
    pause: float = 0.0
    parked: int | None = None

    def look(self, lease: NodeRecord, before: float, now: float) -> None:
        """Take in the lease that a look found. The look ended at `now`, the look before it at `before`."""
        beats, longer = lease.beat - self.beat, lease.expires - self.expires
        self.apart = min(self.apart, now - lease.expires)
        if longer:
            self.heartbeat = min(now, max(before, lease.expires + self.apart))
        if beats > 0:
            self.pause = max(0.0, longer / beats)
        self.beat, self.expires = lease.beat, lease.expires


class Departures:
    """Nodes that joined and left, fed by the looks of a membership. `wall` gives seconds since 1970."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self.on_detected: Callable[[float], None] = lambda seconds: None
        """Called for each node whose lease ran out, with the seconds from its last heartbeat until that was found."""
        self._wall = wall
        self._lives: dict[NodeId, _Life] = {}
        self._gone: OrderedDict[tuple[NodeId, Boot], Departure] = OrderedDict()
        self._events: deque[EventView] = deque(maxlen=MAX_REMEMBERED)
        self._looked: float | None = None
        self._count, self._me = 0, os.urandom(4).hex()

    def of(self, node: str, boot: str) -> Departure | None:
        """The departure of one life of a node, None if it has not departed. If its lease came back and went again, the
        last departure."""
        return self._gone.get((NodeId(node), Boot(boot)))

    @property
    def changes(self) -> int:
        """A number that grows whenever a node joins, drains or leaves."""
        return self._count

    def all(self) -> list[Departure]:
        """All departures that are remembered, the newest last."""
        return list(self._gone.values())

    def events(self) -> list[EventView]:
        """The latest events of nodes that joined, drained or left, the newest last."""
        return list(self._events)

    def heartbeats(self) -> dict[NodeId, float]:
        """The time of the last heartbeat of each node that has a lease."""
        return {node: life.heartbeat for node, life in self._lives.items()}

    def ages(self) -> dict[NodeId, float]:
        """Seconds since the last heartbeat of each node that has a lease."""
        now = self._wall()
        return {node: max(0.0, now - at) for node, at in self.heartbeats().items()}

    def look(self, members: Mapping[NodeId, Member], leases: Iterable[NodeRecord]) -> None:
        """Take in a view of the fleet that was just read, and the leases that were read for it. A member without a
        lease has not departed: its lease ran out while the store was unreachable, and it may come back."""
        now = self._wall()
        before = self._looked if self._looked is not None else now
        ours = {node: member for node, member in members.items() if member.state != STRANGE}
        for node, life in tuple(self._lives.items()):
            if node not in ours or ours[node].boot != life.boot:
                self._went(node, self._lives.pop(node), now)
        for lease in leases:
            if (member := ours.get(lease.node)) is not None:
                self._saw(member, lease, before, now)
        self._looked = now

    def _saw(self, member: Member, lease: NodeRecord, before: float, now: float) -> None:
        node, life = lease.node, self._lives.get(lease.node)
        if life is None:
            apart = now - lease.expires
            life = _Life(member.boot, member.state, lease.beat, lease.expires, apart, now, parked=member.stats.parked)
            self._lives[node] = life
            # The nodes of the first look were there before this router.
            if self._looked is not None:
                back = self.of(node, member.boot) is not None
                self._add_event(
                    Kind.NODE_JOINED, node, now, "is back: its process never ended" if back else "has joined"
                )
            return
        life.look(lease, before, now)
        if member.state == DRAINING and life.state != DRAINING:
            self._add_event(Kind.NODE_DRAINING, node, now, "drains: it takes no new call, and hands off what it may")
        life.state, life.parked = member.state, member.stats.parked

    def _went(self, node: NodeId, life: _Life, now: float) -> None:
        silent = max(0.0, now - life.heartbeat)
        left = life.state == DRAINING or silent < GIVEN_BACK * life.pause
        self._gone.pop((node, life.boot), None)
        gone = Departure(node, life.boot, life.state, life.heartbeat, now, left, life.parked)
        self._gone[node, life.boot] = gone
        if len(self._gone) > MAX_REMEMBERED:
            self._gone.popitem(last=False)
        if left:
            # A node that drained may have been killed after that. Then its lease ran out, and the calls that it was to
            # keep may be lost: this router does not know.
            how = "it drained, and its lease is gone" if life.state == DRAINING else "it gave its lease back"
            self._add_event(Kind.NODE_LEFT, node, now, f"has left: {how}")
            return
        text = f"is lost: its lease ran out, {silent:.1f} s after its last heartbeat; retries of its calls go elsewhere"
        self._add_event(Kind.NODE_LOST, node, now, text)
        self.on_detected(silent)

    def _add_event(self, kind: Kind, node: NodeId, at: float, text: str) -> None:
        self._count += 1
        event_id = f"{self._me}-{self._count:08}"
        self._events.append(EventView(id=event_id, at=at, node_id=node, kind=kind, text=f"Node {node} {text}"))
