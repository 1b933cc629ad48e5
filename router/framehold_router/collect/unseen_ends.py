"""Nodes that went while no router saw them go: the event log has them, and they have neither a node lease nor an end.

    1. a node joins: the routers see it, and write so to the event log
    2. it dies, and so do all routers that knew it, before one of them has found its lease gone
    3. a new router reads the event log, and finds a node there that nobody has
    4. it is told as lost `GRACE` seconds later, for it may have no lease only because the store was away; as one that
       left, if the log says that it drained, and not that the drain was taken back

The law: only the newest life under a name counts, only for an hour after its last event, and only while the store
answers. When its lease ran out is not known, so such an end has no last heartbeat, and `detected` is the time at which
this router first missed it. Times are in seconds since 1970 on the store's clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from framehold_fleet.models.events import EndView, EventKind, EventView

GRACE = 10.0
"""Seconds for which a node must be missing. After an outage of the store nodes need up to five to register again."""
HOUR = 3600.0
_DRAINS = (EventKind.DRAIN, EventKind.NODE_DRAINING)
_OF_DRAINS = (*_DRAINS, EventKind.UNDRAINED)

Life = tuple[str, str]
"""The name of a node and the boot of one process with that name."""


class UnseenEnds:
    """Finds the lives of nodes that ended unseen. Belongs to one event log."""

    def __init__(self) -> None:
        self._missed: dict[Life, float] = {}
        """When this router first missed each life."""

    def look(
        self, events: Iterable[EventView], ended: Collection[Life], here: Collection[Life], now: float
    ) -> tuple[EndView, ...]:
        """The ends that nobody saw, at the time `now`: of nodes in `events` that are neither `ended` nor `here`."""
        last, drained = _last_events(events, now - HOUR)
        names = {node for node, _ in here}
        gone = [(node, event.boot) for node, event in last.items() if node not in names]
        self._missed = {life: self._missed.get(life, now) for life in gone if life not in ended}
        return tuple(
            EndView(node_id=node, boot=boot, state="", left=(node, boot) in drained, detected=at)
            for (node, boot), at in self._missed.items()
            if now - at >= GRACE
        )

    def store_is_away(self) -> None:
        """Begin anew: while the store does not answer, nodes may have no lease although they live."""
        self._missed.clear()


def _last_events(events: Iterable[EventView], since: float) -> tuple[dict[str, EventView], set[Life]]:
    """The last event of each node after `since`, and the lives that drained at last."""
    last: dict[str, EventView] = {}
    of_drains: dict[Life, EventView] = {}
    for event in events:
        if not event.node_id or event.at < since:
            continue
        life = event.node_id, event.boot
        if event.kind in _OF_DRAINS and (life not in of_drains or _rank(event) >= _rank(of_drains[life])):
            of_drains[life] = event
        if event.node_id not in last or event.at >= last[event.node_id].at:
            last[event.node_id] = event
    return last, {life for life, event in of_drains.items() if event.kind in _DRAINS}


def _rank(event: EventView) -> tuple[float, bool]:
    """The later of two events of drains has the greater one; of the same moment, that a drain was taken back."""
    return event.at, event.kind == EventKind.UNDRAINED
