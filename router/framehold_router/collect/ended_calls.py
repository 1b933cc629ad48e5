"""Reads the calls that ended in the last hour, as the nodes wrote them, also those that are gone by now.

The law: memory is bounded, whatever is in the store: MAX_EVENTS calls that failed, and as many others. An entry that
can't be read is skipped. While the store does not answer, what was read stays. A call that ended on two nodes, as one
that diverged on one and went on at another, counts once, as it ended last.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from framehold_core.ending import FAILED
from framehold_core.errors import StoreUnavailable
from framehold_fleet.members.membership import Fleet
from framehold_fleet.models.calls import EndedCallView
from framehold_store.base import MAX_EVENT_AGE, MAX_EVENTS, Store, StreamName

from .event_reader import EventReader
from .shared_look import SharedLook

_STREAMS: tuple[StreamName, ...] = ("failed", "ended")


class EndedCallsView(NamedTuple):
    """The calls that ended in the last hour, by their ids. `stale`: the store did not answer, so that calls may be
    missing that ended since it last did."""

    calls: Mapping[str, EndedCallView]
    stale: bool = False


class EndedCalls:
    """The ended calls of one fleet, by its store and the `clock` of this process. Belongs to one event loop; `close`
    it."""

    def __init__(self, store: Store, fleet: Callable[[], Fleet], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._shared = SharedLook(fleet, self._look, "framehold ended calls")
        self._readers = {name: EventReader(store, EndedCallView, name) for name in _STREAMS}
        self._kept = {name: OrderedDict[str, EndedCallView]() for name in _STREAMS}

    async def known(self) -> EndedCallsView:
        """Read what is new, and return all that is known."""
        return await self._shared.result()

    async def close(self) -> None:
        """Stop reading."""
        await self._shared.close()

    async def _look(self) -> EndedCallsView:
        stale = False
        try:
            for name in _STREAMS:
                async for item in self._readers[name].fresh():
                    self._add(item)
        except StoreUnavailable:
            stale = True
        since = self._clock() - MAX_EVENT_AGE["ended"]
        items = (item for kept in self._kept.values() for item in kept.values())
        return EndedCallsView({item.call_id: item for item in items if item.ended >= since and item.outcome}, stale)

    def _add(self, item: EndedCallView) -> None:
        if any((known := kept.get(item.call_id)) and known.ended > item.ended for kept in self._kept.values()):
            return
        for kept in self._kept.values():
            kept.pop(item.call_id, None)
        kept = self._kept["failed" if item.outcome in FAILED or not item.outcome else "ended"]
        kept[item.call_id] = item
        if len(kept) > MAX_EVENTS:
            kept.popitem(last=False)
