"""Which calls a node has, for operators: filtered, in order, a page at a time.

The law: the loop is nobody's alone. A pass goes over all calls in portions, and others run between two of them; of what
it finds it keeps no more than a page. Only what the page shows is looked at in detail.

A call is here once. While a page is gathered calls come, go and change: one that went meanwhile is left out, and of one
that changed the page tells what is so at its end. A call whose id was passed by the last page does not come again.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any

from framehold_core.call import Phase
from framehold_router.api import paging
from framehold_router.api.about_calls import LeaseQuery, LeasesView, LeaseView, Sort, State
from framehold_router.api.fields import printable
from framehold_store.base import Summary

from . import clock
from .ledger import SKEW
from .orphans import is_stuck
from .runtime import Runtime
from .slots import Slot

PORTION = 2000
"""Calls that are looked at in one turn of the loop: about a millisecond."""
_PARKED = Phase.PARKED
_HERE, _MARKED = (State.PARKED, State.RUNNING), (State.ORPHANED, State.STUCK)

Found = tuple[Any, str, Slot | Summary]
"""A call by its place in the order: the value, and its id. Last what it is: here, or as a walk read its record."""
Test = Callable[[Slot], bool]


async def leases(runtime: Runtime, query: LeaseQuery) -> LeasesView:
    """A page of the calls that are here, and of those that this node found without a node, or stuck.

    Raises:
        ValueError: `after` is not the `next` of a page in this order.
    """
    after = None if query.after is None else paging.decode(query.after, query.sort)
    page = list[LeaseView]()
    while True:
        wanted = query.limit - len(page)
        total, found = await _first(runtime, query, after, wanted + 1)
        page += [_view(runtime, of) for _, _, of in found[:wanted] if isinstance(of, Summary) or of.frame]
        if len(found) <= wanted:
            return LeasesView(items=page, total=total)
        if len(page) == query.limit:
            return LeasesView(items=page, total=total, next=paging.encode(query.sort, page[-1]))
        # Some went while they were gathered: those that come after fill their places.
        after = found[wanted - 1][:2]


async def _first(runtime: Runtime, query: LeaseQuery, after: paging.Key | None, count: int) -> tuple[int, list[Found]]:
    """How many calls the filters let through, and the first `count` of those after `after`."""
    best: Callable[[int, Iterable[Found]], list[Found]]
    best = heapq.nlargest if query.descending else heapq.nsmallest
    value, picked = _values(query.sort), list[Found]()
    # Both as they are now: what one has, the other has not.
    marked, slots = _marked(runtime, query), iter(runtime.table)
    total = len(marked)
    picked = best(count, (item for item in marked if _follows(item, after, query.descending)))
    for portion in _portions(runtime, query, slots):
        total += len(portion)
        low, high = _bounds(query, after, picked[-1] if len(picked) == count else None)
        fresh = [(of, slot.call.id, slot) for slot in portion if low <= (of := value(slot)) <= high]
        # No two have the same id, so what they are is never compared.
        picked = best(
            count, itertools.chain(picked, (item for item in fresh if _follows(item, after, query.descending)))
        )
        await asyncio.sleep(0)
    return total, picked


def _bounds(query: LeaseQuery, after: paging.Key | None, last: Found | None) -> tuple[Any, Any]:
    """Between which values a call must be to find a place: of most, one look says that it won't."""
    least: tuple[Any, Any] = ("", "~") if query.sort is Sort.CALL else (-math.inf, math.inf)
    first, end = (None if after is None else after[0]), (None if last is None else last[0])
    low, high = (end, first) if query.descending else (first, end)
    return least[0] if low is None else low, least[1] if high is None else high


def _follows(item: Found, after: paging.Key | None, descending: bool) -> bool:
    return after is None or (item[:2] < after if descending else item[:2] > after)


def _portions(runtime: Runtime, query: LeaseQuery, slots: Iterator[Slot]) -> Iterator[list[Slot]]:
    """The calls that are here and that the filters let through."""
    if query.state in _MARKED or query.node not in (None, runtime.heartbeat.lease.node):
        return
    tests, met = tuple(_tests(query)), set[str]()
    while portion := tuple(itertools.islice(slots, PORTION)):
        kept: Iterable[Slot] = (slot for slot in portion if slot.frame is not None)
        for test in tests:
            kept = filter(test, kept)
        yield [slot for slot in kept if slot.place == slot.call.id or _is_first(slot.call.id, met)]


def _is_first(call: str, met: set[str]) -> bool:
    """Of a call that is in its token any number of requests may run at a time."""
    known = call in met
    met.add(call)
    return not known


def _tests(query: LeaseQuery) -> Iterator[Test]:
    """What the filters ask of a call that is here."""
    if query.state is not None:
        parked = query.state is State.PARKED
        yield lambda slot: (slot.call.phase is _PARKED) is parked
    if query.replayed is not None:
        yield lambda slot: slot.replayed is query.replayed
    if (beginning := query.call) is not None:
        yield lambda slot: slot.call.id.startswith(beginning)
    if query.expiring is not None:
        until = clock.now() + query.expiring
        yield lambda slot: _is_asked(slot) and slot.call.expires <= until
    if query.tool is not None:
        yield _of_tool(printable(query.tool))


def _of_tool(tool: str) -> Test:
    # There are few tools and many calls.
    known: dict[str, bool] = {}

    def test(slot: Slot) -> bool:
        name = slot.tool
        if name not in known:
            known[name] = printable(name) == tool
        return known[name]

    return test


def _values(sort: Sort) -> Callable[[Slot], Any]:
    """What calls that are here are ordered by: as `paging.key` has it of their views."""
    if sort is Sort.BEGAN:
        return attrgetter("began")
    if sort is Sort.EXPIRES:
        return lambda slot: clock.wall(slot.call.expires) if _is_asked(slot) else 0.0
    if sort is Sort.JOURNAL:
        return attrgetter("size")
    return attrgetter("call.id")


def _is_asked(slot: Slot) -> bool:
    """Whether a token of it is out."""
    return slot.call.round > 0


def _view(runtime: Runtime, of: Slot | Summary) -> LeaseView:
    return _marked_view(runtime, of) if isinstance(of, Summary) else _slot_view(runtime, of)


def _slot_view(runtime: Runtime, slot: Slot) -> LeaseView:
    call, head = slot.call, slot.head
    answered = bool(call.past) or call.answered is not None
    return LeaseView(
        call_id=call.id,
        tool=slot.tool,
        method=slot.entrance.describe()["method"] if head is None else head.method,
        node_id=runtime.heartbeat.lease.node,
        state=State.PARKED if call.phase is _PARKED else State.RUNNING,
        phase=call.phase.value,
        strategy=slot.entrance.strategy,
        reentrant=call.reentrant,
        epoch=call.epoch,
        round=call.round,
        replayed=slot.replayed,
        began=slot.began,
        resumed=clock.wall(slot.due - runtime.settings.max_round) if answered else None,
        expires=clock.wall(call.expires) if _is_asked(slot) else None,
        entries=call.n,
        journal_bytes=slot.size,
    )


# ---- calls whose node is gone, and those that are stuck


def _marked(runtime: Runtime, query: LeaseQuery) -> list[Found]:
    """What the last walk of this node found, if it is the one that looks, and the filters let through."""
    if query.state in _HERE:
        return []
    views = (
        (_marked_view(runtime, item), item)
        for item in runtime.orphans.marked.calls
        if (slot := runtime.table.get(item.call)) is None or slot.frame is None
    )
    return [(*paging.key(query.sort, view), item) for view, item in views if _lets(query, view)]


def _lets(query: LeaseQuery, view: LeaseView) -> bool:
    return (
        query.state in (None, view.state)
        and query.replayed in (None, view.replayed)
        and query.node in (None, view.node_id)
        and (query.call is None or view.call_id.startswith(query.call))
        and (query.tool is None or printable(query.tool) == view.tool)
        and (query.expiring is None or (view.expires or 0.0) <= clock.wall(clock.now()) + query.expiring)
    )


def _marked_view(runtime: Runtime, item: Summary) -> LeaseView:
    stuck = is_stuck(item)
    return LeaseView(
        call_id=item.call,
        tool=item.tool,
        node_id=item.owner,
        state=State.STUCK if stuck else State.ORPHANED,
        phase="nobody enters it again" if stuck else "waiting for its client to come back",
        strategy=item.strategy,
        reentrant=item.reentrant,
        epoch=item.epoch,
        round=item.round,
        replayed=item.epoch > 1,
        began=item.created,
        # A record outlives the last token of its call by this much (rule 17).
        expires=max(0.0, item.expires - SKEW - runtime.settings.max_round),
    )
