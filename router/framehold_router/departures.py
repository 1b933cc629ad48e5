"""Which nodes came and went, as this router saw it: when each was last alive, and when its lease was found gone.

The law: it tells of the fleet's own nodes only, keeps a bounded number of everything, and no call rests on it.
Times are in seconds since 1970 on this router's clock. `detected` is when a look at the store found the lease gone: a
lease that is given back is heard of at once, one that runs out is found by the next look, so up to a poll later.

When a heartbeat was is not written anywhere, and a look sees only that the beat has gone up since the look before. But
a lease runs out one TTL after its renewal, on the store's clock: how far that clock and the TTL are apart from ours is
the least difference that any look found, since a look may be late but never early.

    1. a node registers, or says that it drains: the change feed wakes us within milliseconds, the difference is exact
    2. it renews without a word; a look that comes 1.5 s later takes the renewal's own time from when it will run out
    3. a clock was put forward or back: what comes of it lies outside the two looks that the beat went up between, and
       is cut to them

So a heartbeat is right to some milliseconds for a node that came while this router ran, and to one poll always; but
for the first one of a node that was there before: that is taken to have been at the first look.
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

from .api.about_events import EventView, Kind
from .membership import DRAINING, STRANGE, Member

KEPT = 200
"""Departures, and events, that are remembered."""
GIVEN_BACK = 2.0
"""A lease that is gone sooner after its last heartbeat than this many times the pause between two was given back: one
that runs out lasts for three."""


class Departure(NamedTuple):
    """The end of one life of a node. `state`, and how many calls were `parked`, are what its lease said last; `left`
    where it was given back."""

    node: NodeId
    boot: Boot
    state: str
    last_heartbeat: float
    detected: float
    left: bool
    parked: int | None = None


@dataclass(slots=True)
class _Life:
    """What is known of one life of a node. `heartbeat` is when it last renewed, `pause` how long before that it had."""

    boot: Boot
    state: str
    beat: int
    expires: float
    apart: float
    heartbeat: float
    pause: float = 0.0
    parked: int | None = None

    def look(self, lease: NodeRecord, before: float, now: float) -> None:
        """What a look that ended `now` found; the one before it ended `before`."""
        beats, longer = lease.beat - self.beat, lease.expires - self.expires
        self.apart = min(self.apart, now - lease.expires)
        if longer:
            self.heartbeat = min(now, max(before, lease.expires + self.apart))
        if beats > 0:
            self.pause = max(0.0, longer / beats)
        self.beat, self.expires = lease.beat, lease.expires


class Departures:
    """What a membership has seen. `wall` gives seconds since 1970."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self.on_detected: Callable[[float], None] = lambda seconds: None
        """Told of each node that went without a word: how long after its last heartbeat that was found."""
        self._wall = wall
        self._lives: dict[NodeId, _Life] = {}
        self._gone: OrderedDict[tuple[NodeId, Boot], Departure] = OrderedDict()
        self._events: deque[EventView] = deque(maxlen=KEPT)
        self._looked: float | None = None
        self._count, self._me = 0, os.urandom(4).hex()

    def of(self, node: str, boot: str) -> Departure | None:
        """How one life of a node ended; the last time, where its lease came back and went again."""
        return self._gone.get((NodeId(node), Boot(boot)))

    @property
    def changes(self) -> int:
        """Another number whenever somebody came or went."""
        return self._count

    def all(self) -> list[Departure]:
        """All that are remembered, the newest last."""
        return list(self._gone.values())

    def events(self) -> list[EventView]:
        """The latest comings and goings, the newest last."""
        return list(self._events)

    def heartbeats(self) -> dict[NodeId, float]:
        """When each node that has a lease was last alive."""
        return {node: life.heartbeat for node, life in self._lives.items()}

    def ages(self) -> dict[NodeId, float]:
        """How many seconds ago that was."""
        now = self._wall()
        return {node: max(0.0, now - at) for node, at in self.heartbeats().items()}

    def look(self, members: Mapping[NodeId, Member], leases: Iterable[NodeRecord]) -> None:
        """Take note of a view that was just read, and of the leases that it was made of. A member without a lease is
        one whose lease ran out while the store was away: it is still waited for."""
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
            # Those of the first look were there before us.
            if self._looked is not None:
                back = self.of(node, member.boot) is not None
                self._tell(Kind.NODE_JOINED, node, now, "is back: its process never ended" if back else "has joined")
            return
        life.look(lease, before, now)
        if member.state == DRAINING and life.state != DRAINING:
            self._tell(Kind.NODE_DRAINING, node, now, "drains: it takes no new call, and hands off what it may")
        life.state, life.parked = member.state, member.stats.parked

    def _went(self, node: NodeId, life: _Life, now: float) -> None:
        silent = max(0.0, now - life.heartbeat)
        left = life.state == DRAINING or silent < GIVEN_BACK * life.pause
        self._gone.pop((node, life.boot), None)
        gone = Departure(node, life.boot, life.state, life.heartbeat, now, left, life.parked)
        self._gone[node, life.boot] = gone
        if len(self._gone) > KEPT:
            self._gone.popitem(last=False)
        if left:
            # Drained, it may have been killed then, its lease run out: of what it was to keep nothing is known here.
            how = "it drained, and its lease is gone" if life.state == DRAINING else "it gave its lease back"
            self._tell(Kind.NODE_LEFT, node, now, f"has left: {how}")
            return
        text = f"is lost: its lease ran out, {silent:.1f} s after its last heartbeat; retries of its calls go elsewhere"
        self._tell(Kind.NODE_LOST, node, now, text)
        self.on_detected(silent)

    def _tell(self, kind: Kind, node: NodeId, at: float, text: str) -> None:
        self._count += 1
        event_id = f"{self._me}-{self._count:08}"
        self._events.append(EventView(id=event_id, at=at, node_id=node, kind=kind, text=f"Node {node} {text}"))
