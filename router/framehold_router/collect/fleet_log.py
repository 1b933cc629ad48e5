"""Reads the event log of the fleet: what its nodes and routers saw.

    1. somebody looks: the router reads the entries after the last one that it has, a page at a time
    2. several routers saw the same node end: their entries have one key, and count once; a router that saw that the
       node gave its lease back knows more than one that found the lease gone
    3. a takeover is written again when it has changed: the later entry counts
    4. the process that carried a call on is gone: its takeovers that were under way count as failed
    5. a node went while no router saw it: what the log has of it tells so (`unseen_ends`)
    6. calls were lost with their process: they are counted `SURE` seconds later, since a lease that ran out may come
       back, and with it all calls of its process

The law: memory is bounded, whatever is in the store: an entry that can't be read is skipped. While the store does not
answer, what was read stays. What this router sees itself counts at once, also if it can't be written.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from framehold_core.errors import StoreUnavailable
from framehold_fleet.members.membership import Fleet
from framehold_fleet.models.events import ENDED, EndView, EventKind, EventView, LogEntry, TakeoverView
from framehold_store.base import Store

from .event_reader import EventReader
from .shared_look import SharedLook
from .unseen_ends import UnseenEnds

MAX_EVENTS, MAX_TAKEOVERS, MAX_ENDS = 500, 5_000, 500
"""Events, takeovers and ends of nodes that are kept at most."""
SURE = 30.0
"""Seconds after which calls that were lost are counted."""
DIED, DRAIN_DEADLINE = "died", "drain_deadline"
"""Why calls are lost with their process: it died, or it drained for as long as it may."""

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


class LostCalls(NamedTuple):
    """Calls that were lost: when, how many, with which life of a node, and why (`DIED` or `DRAIN_DEADLINE`)."""

    at: float
    calls: int
    boot: str
    why: str


class FleetPast(NamedTuple):
    """What is known of the past: the latest events (the newest first), the takeovers, and the last end of each life of
    a node, by node and boot. `here` are the lives that have a lease now. `changes` grows whenever one of them has
    changed. `losses` are the calls that were lost with their process."""

    events: tuple[EventView, ...] = ()
    takeovers: tuple[TakeoverView, ...] = ()
    ends: Mapping[tuple[str, str], EndView] = MappingProxyType({})
    here: frozenset[tuple[str, str]] = frozenset()
    changes: int = 0
    losses: tuple[LostCalls, ...] = ()


class FleetLog:
    """The event log of one fleet, as a router shows it. `wall` gives seconds since 1970 on the store's clock. It
    belongs to one event loop; `close` it."""

    def __init__(self, store: Store, fleet: Callable[[], Fleet], wall: Callable[[], float]) -> None:
        self._reader = EventReader(store, LogEntry)
        self._fleet, self._wall, self._since = fleet, wall, wall()
        self._shared = SharedLook(fleet, self._look, "framehold event log")
        self._events: OrderedDict[tuple[str, str], EventView] = OrderedDict()
        self._takeovers: OrderedDict[tuple[str, int, float], TakeoverView] = OrderedDict()
        self._ends: OrderedDict[tuple[str, str, str], EndView] = OrderedDict()
        self._losses: OrderedDict[str, LostCalls] = OrderedDict()
        self._uncounted: OrderedDict[str, LostCalls] = OrderedDict()
        self.lost = Counter({DIED: 0, DRAIN_DEADLINE: 0})
        """Calls that were lost with their process since this log was made, by why."""
        self._here: frozenset[tuple[str, str]] = frozenset()
        self._finder, self._unseen = UnseenEnds(), tuple[EndView, ...]()
        self._changed = False
        self._logged = FleetPast()

    def add(self, entry: LogEntry) -> None:
        """Take in what a process of the fleet saw."""
        if (event := entry.event) is not None:
            self._add_event(event)
        if (takeover := entry.takeover) is not None:
            _keep(self._takeovers, (takeover.call, takeover.epoch, takeover.asked), takeover, MAX_TAKEOVERS)
        if (end := entry.end) is not None:
            self._add_end(end)
        self._changed = True

    async def logged(self) -> FleetPast:
        """Read what is new, and return all that is known."""
        return await self._shared.result()

    async def close(self) -> None:
        """Stop reading."""
        await self._shared.close()

    async def _look(self) -> FleetPast:
        try:
            async for entry in self._reader.fresh():
                self.add(entry)
        except StoreUnavailable:
            # What was read stays.
            self._finder.store_is_away()
        here = frozenset((str(member.node), str(member.boot)) for member in self._fleet().members.values())
        self._count({boot for _, boot in here})
        ended = {(node, boot) for node, boot, _ in self._ends}
        unseen = self._finder.look(self._events.values(), ended, here, self._wall())
        if self._changed or (here, unseen) != (self._here, self._unseen):
            self._changed, self._here, self._unseen = False, here, unseen
            self._logged = self._view(here)
        return self._logged

    def _add_event(self, event: EventView) -> None:
        key = event.node_id, event.id
        known = self._events.get(key)
        if known is None or (known.kind == EventKind.NODE_LOST and event.kind == EventKind.NODE_LEFT):
            _keep(self._events, key, event, MAX_EVENTS)
            self._add_loss(event)

    def _add_loss(self, event: EventView) -> None:
        boot, why = event.boot, DIED if event.id.startswith(f"{ENDED}-") else DRAIN_DEADLINE
        known = self._losses.get(boot)
        if event.kind == EventKind.NODE_LEFT and not event.lost and known is not None and known.why == DIED:
            # Nothing was lost when its lease ran out: it came back, or gave its lease back.
            del self._losses[boot]
            self._uncounted.pop(boot, None)
        elif event.lost and (known is None or event.at > known.at + SURE):
            loss = LostCalls(event.at, event.lost, boot, why)
            _keep(self._losses, boot, loss, MAX_EVENTS)
            if event.at >= self._since:
                _keep(self._uncounted, boot, loss, MAX_EVENTS)

    def _count(self, here: Collection[str]) -> None:
        """Count the calls that are lost for certain by now. The lives in `here` have a lease: nothing of them is."""
        until = self._wall() - SURE
        for loss in [loss for loss in self._uncounted.values() if loss.at <= until]:
            del self._uncounted[loss.boot]
            self.lost[loss.why] += 0 if loss.boot in here else loss.calls

    def _add_end(self, end: EndView) -> None:
        key = end.node_id, end.boot, end.incarnation
        if (known := self._ends.get(key)) is not None:
            first = known if known.detected <= end.detected else end
            end = first.model_copy(update={"left": known.left or end.left})
        _keep(self._ends, key, end, MAX_ENDS)

    def _view(self, here: frozenset[tuple[str, str]]) -> FleetPast:
        events = sorted(self._events.values(), key=lambda event: (event.at, event.node_id, event.id), reverse=True)
        ends: dict[tuple[str, str], EndView] = {}
        for end in sorted((*self._ends.values(), *self._unseen), key=lambda end: end.detected):
            ends[end.node_id, end.boot] = end
        losses = tuple(self._losses.values())
        takeovers = tuple(_ended(item, here) for item in self._takeovers.values())
        return FleetPast(tuple(events), takeovers, MappingProxyType(ends), here, self._logged.changes + 1, losses)


def _ended(takeover: TakeoverView, here: frozenset[tuple[str, str]]) -> TakeoverView:
    """The takeover; one that was under way in a process that is gone has failed."""
    if takeover.outcome != "under way" or (takeover.to_node, takeover.to_boot) in here:
        return takeover
    return takeover.model_copy(update={"outcome": "failed"})


def _keep(items: OrderedDict[Key, Item], key: Key, item: Item, limit: int) -> None:
    """Set `key`, at the place that it has, and drop the oldest items beyond the limit."""
    items[key] = item
    while len(items) > limit:
        items.popitem(last=False)
