"""Nodes that joined and left, as this router saw it: the last heartbeat of each, and when its lease was found gone.

The law: only nodes of this fleet are reported, and no decision about a call uses these data. Each report is an entry
for the event log of the fleet (`on_entry`). Several routers see the same; their entries about it have the same id.
Times are in seconds since 1970 on the store's clock. A "look" is one read of the leases from the store.
`detected` is the time of the look that found the lease gone. The change feed reports a lease that is given back at
once. A lease that runs out is found by the next look, up to one poll later.

The time of a heartbeat is stored nowhere; a look sees only that the lease runs out later than at the look before. The
time is computed from the expiry of the lease, which is one TTL after the renewal. The offset between `expires` and the
time of the heartbeat is the least difference `now - expires` of all looks, because a look can be late but never early.

    1. a node registers or begins to drain: the change feed wakes the router within milliseconds, so the offset is exact
    2. a node renews, which causes no notice: a look 1.5 s later computes the time of the renewal from `expires`
    3. a clock was set forward or back: the computed time lies outside the two looks between which it was renewed, and
       is moved to the nearer of them

So the time of a heartbeat is exact to some milliseconds if the node joined while this router ran, and to one poll
otherwise. The first heartbeat of a node that was there before this router is taken to be at the first look.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_core.lease import NodeRecord
from framehold_fleet.members.membership import DRAINING, STRANGE, Member
from framehold_fleet.members.node_stats import Stats
from framehold_fleet.models.events import ENDED, EndView, EventKind, EventView, LogEntry
from framehold_fleet.models.fields import summed

MAX_REMEMBERED = 200
"""Lives that have ended which are remembered at most: a process whose lease comes back has not joined."""
GIVEN_BACK = 0.2
"""A lease that is gone at least so many seconds before it runs out was given back. It runs out two pauses between
heartbeats after a node could give it back, so this has only to exceed the error of the measured clock."""


@dataclass(slots=True)
class _Life:
    """One life of a node. `heartbeat`: when it last renewed its lease. `apart`: the least difference between the time
    of a look and `expires`, in seconds."""

    boot: Boot
    inc: Incarnation
    state: str
    expires: float
    apart: float
    heartbeat: float
    stats: Stats = field(default_factory=Stats)

    def look(self, lease: NodeRecord, before: float, now: float) -> None:
        """Take in the lease that a look found. The look ended at `now`, the look before it at `before`."""
        self.apart = min(self.apart, now - lease.expires)
        if lease.expires != self.expires:
            self.heartbeat = min(now, max(before, lease.expires + self.apart))
        self.inc, self.expires = lease.inc, lease.expires


class Departures:
    """Nodes that joined and left, fed by the looks of a membership. `wall` gives seconds since 1970 on the store's
    clock."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self.on_detected: Callable[[float], None] = lambda seconds: None
        """Called for each node whose lease ran out, with the seconds from its last heartbeat until that was found."""
        self.on_entry: Callable[[LogEntry], None] = lambda entry: None
        """Called with each entry for the event log."""
        self._wall = wall
        self._lives: dict[NodeId, _Life] = {}
        self._ended: OrderedDict[tuple[NodeId, Boot], None] = OrderedDict()
        self._looked: float | None = None

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
                self._went(node, self._lives.pop(node), before, now)
        for lease in leases:
            if (member := ours.get(lease.node)) is not None:
                self._saw(member, lease, before, now)
        self._looked = now

    def _saw(self, member: Member, lease: NodeRecord, before: float, now: float) -> None:
        node, life = lease.node, self._lives.get(lease.node)
        if life is None:
            apart = now - lease.expires
            life = _Life(member.boot, member.inc, member.state, lease.expires, apart, now)
            life.stats = member.stats
            self._lives[node] = life
            # The nodes of the first look were there before this router.
            if self._looked is not None:
                text = "is back: its process never ended" if (node, member.boot) in self._ended else "has joined"
                self._report(EventKind.NODE_JOINED, node, life, now, text)
            return
        life.look(lease, before, now)
        if member.state == DRAINING and life.state != DRAINING:
            text = "drains: it takes no new call, and hands off what it may"
            self._report(EventKind.NODE_DRAINING, node, life, now, text)
        life.state, life.stats = member.state, member.stats

    def _went(self, node: NodeId, life: _Life, before: float, now: float) -> None:
        silent = max(0.0, now - life.heartbeat)
        left = life.state == DRAINING or now < life.expires - GIVEN_BACK
        self._ended[node, life.boot] = None
        if len(self._ended) > MAX_REMEMBERED:
            self._ended.popitem(last=False)
        end = EndView(
            node_id=node,
            boot=life.boot,
            incarnation=life.inc,
            state=life.state,
            left=left,
            last_heartbeat=life.heartbeat,
            detected=now,
            calls=life.stats.parked,
            gone=now if left else min(now, life.expires),
            orphaned=_sum(life.stats.kept, life.stats.asleep),
            released=life.stats.released,
        )
        # A node that gave its lease back has said itself what its drain left over. One that drained and was killed let
        # it run out. That is certain if no renewal can have come and gone unseen between the last two looks.
        ran_out = now >= life.expires and now - before < -life.apart * 2 / 3
        bound = life.stats.bound or 0 if ran_out or not left else 0
        lost = f"; {bound:,} calls of tools not marked re-entrant are lost" if bound else ""
        if left:
            how = "it drained, and its lease is gone" if life.state == DRAINING else "it gave its lease back"
            self._report(EventKind.NODE_LEFT, node, life, now, f"has left: {how}{lost}", end, bound)
            return
        parked = life.stats.parked
        had = "" if parked is None else f" (it had {parked:,} parked)"
        late = f"its lease ran out, {silent:.1f} s after its last heartbeat"
        text = f"is lost: {late}; retries of its calls{had} go elsewhere{lost}"
        self._report(EventKind.NODE_LOST, node, life, now, text, end, bound)
        self.on_detected(silent)

    def _report(
        self,
        kind: EventKind,
        node: NodeId,
        life: _Life,
        at: float,
        text: str,
        end: EndView | None = None,
        lost: int = 0,
    ) -> None:
        about = ENDED if end is not None else kind.value
        event_id = f"{about}-{life.boot}-{life.inc}"
        event = EventView(id=event_id, at=at, node_id=node, kind=kind, lost=lost, text=f"Node {node} {text}")
        self.on_entry(LogEntry(event=event, end=end))


def _sum(*counts: int | None) -> int | None:
    """The sum of the counts that are known; None if none is."""
    known = [count for count in counts if count is not None]
    return summed(known) if known else None
