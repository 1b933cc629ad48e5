"""The list of a node's calls, for operators: filtered, sorted, and one page at a time.

The law: a list does not block the event loop. It reads the calls in portions, and other tasks run between two portions.
It keeps no more than one page of calls, and reads details only of the calls on the page.

Each call is listed once. While a page is gathered, calls come, go and change. A call that ended meanwhile is left out,
and a call that changed is shown as it is at the end. A cursor is the key by which a call was found: that
this call changed leaves out no other.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from operator import attrgetter
from typing import Any

from framehold_core.call import Phase
from framehold_fleet.models import paging
from framehold_fleet.models.calls import LeaseQuery, LeasesView, LeaseView
from framehold_fleet.models.choices import Sort, State
from framehold_fleet.models.fields import matches
from framehold_store.base import Summary

from ..engine.records import SKEW
from ..engine.runtime import Runtime
from ..engine.slot import Slot

PORTION = 2000
"""How many calls are read in one turn of the loop: about a millisecond."""
_PARKED = Phase.PARKED
_ON_NODE = (State.PARKED, State.RUNNING)
_FROM_SCAN = (State.ORPHANED, State.STUCK)

Found = tuple[Any, str, Slot | Summary]
"""A call with its sort key: the value that is sorted by, and its id. The call is a `Slot` if it is on this node, or a
`Summary` of its record if the orphan scan found it."""
Test = Callable[[Slot], bool]


async def leases(runtime: Runtime, query: LeaseQuery) -> LeasesView:
    """A page of the calls on this node, and of the orphaned and stuck calls that this node's orphan scan found.

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
        # The key by which the call was found: it may have another one by now.
        after = found[wanted - 1][:2]
        if len(page) == query.limit:
            return LeasesView(items=page, total=total, next=paging.encode(after))
        # Some calls ended while they were gathered: the following ones fill their places.


async def _first(runtime: Runtime, query: LeaseQuery, after: paging.Key | None, count: int) -> tuple[int, list[Found]]:
    """How many calls pass the filters, and the first `count` of those whose sort key comes after `after`."""
    best: Callable[[int, Iterable[Found]], list[Found]]
    best = heapq.nlargest if query.descending else heapq.nsmallest
    value, picked = _values(runtime, query.sort), list[Found]()
    # Both are read at this moment, so that no call is in both.
    scanned, slots = _scanned(runtime, query), iter(runtime.table)
    total = len(scanned)
    picked = best(count, (item for item in scanned if _follows(item, after, query.descending)))
    for portion in _portions(runtime, query, slots):
        total += len(portion)
        low, high = _bounds(query, after, picked[-1] if len(picked) == count else None)
        fresh = [(of, slot.call.id, slot) for slot in portion if low <= (of := value(slot)) <= high]
        # No two calls have the same id, so the third parts of the tuples are never compared.
        picked = best(
            count, itertools.chain(picked, (item for item in fresh if _follows(item, after, query.descending)))
        )
        await asyncio.sleep(0)
    return total, picked


def _bounds(query: LeaseQuery, after: paging.Key | None, last: Found | None) -> tuple[Any, Any]:
    """The least and the greatest sort value of a call that may be on the page. A comparison with them excludes most
    calls."""
    least: tuple[Any, Any] = ("", "~") if query.sort is Sort.CALL else (-math.inf, math.inf)
    first, end = (None if after is None else after[0]), (None if last is None else last[0])
    low, high = (end, first) if query.descending else (first, end)
    return least[0] if low is None else low, least[1] if high is None else high


def _follows(item: Found, after: paging.Key | None, descending: bool) -> bool:
    """Whether the sort key of a call comes after `after`."""
    return after is None or (item[:2] < after if descending else item[:2] > after)


def _portions(runtime: Runtime, query: LeaseQuery, slots: Iterator[Slot]) -> Iterator[list[Slot]]:
    """The calls on this node that pass the filters, in portions."""
    if query.state in _FROM_SCAN or not matches(query.node, runtime.heartbeat.lease.node):
        return
    tests, met = tuple(_tests(runtime, query)), set[str]()
    while portion := tuple(itertools.islice(slots, PORTION)):
        kept: Iterable[Slot] = (slot for slot in portion if slot.frame is not None)
        for test in tests:
            kept = filter(test, kept)
        yield [slot for slot in kept if slot.place == slot.call.id or _is_first(slot.call.id, met)]


def _is_first(call: str, met: set[str]) -> bool:
    """Whether `call` was not met before. Under strategy replay several requests of one call may run at a time."""
    known = call in met
    met.add(call)
    return not known


def _tests(runtime: Runtime, query: LeaseQuery) -> Iterator[Test]:
    """The filters, as tests of a call on this node."""
    if query.state is not None:
        parked = query.state is State.PARKED
        yield lambda slot: (slot.call.phase is _PARKED) is parked
    if query.replayed is not None:
        yield lambda slot: slot.replayed is query.replayed
    if (beginning := query.call) is not None:
        yield lambda slot: slot.call.id.startswith(beginning)
    if query.expiring is not None:
        until = runtime.clock.now() + query.expiring
        yield lambda slot: _is_asked(slot) and slot.call.expires <= until
    if query.tool is not None:
        # There are few tools, and many calls.
        of_tool = cache(partial(matches, query.tool))
        yield lambda slot: of_tool(slot.tool)


def _values(runtime: Runtime, sort: Sort) -> Callable[[Slot], Any]:
    """The function that gives the sort value of a call on this node: the same value as `paging.key` gives for its
    view."""
    if sort is Sort.BEGAN:
        return attrgetter("began")
    if sort is Sort.EXPIRES:
        return lambda slot: runtime.clock_began + slot.call.expires if _is_asked(slot) else 0.0
    if sort is Sort.JOURNAL:
        return attrgetter("size")
    return attrgetter("call.id")


def _is_asked(slot: Slot) -> bool:
    """Whether the call has asked, so that a client has a token of it."""
    return slot.call.round > 0


def _view(runtime: Runtime, of: Slot | Summary) -> LeaseView:
    return _scanned_view(runtime, of) if isinstance(of, Summary) else _slot_view(runtime, of)


def _slot_view(runtime: Runtime, slot: Slot) -> LeaseView:
    call, head = slot.call, slot.head
    answered = bool(call.answered_before) or call.answered is not None
    return LeaseView(
        call_id=call.id,
        tool=slot.tool,
        method=slot.handler.describe()["method"] if head is None else head.method,
        node_id=runtime.heartbeat.lease.node,
        state=State.PARKED if call.phase is _PARKED else State.RUNNING,
        phase=call.phase.value,
        strategy=slot.handler.strategy,
        reentrant=call.reentrant,
        epoch=call.epoch,
        round=call.round,
        replayed=slot.replayed,
        began=slot.began,
        resumed=runtime.clock_began + slot.due - runtime.settings.max_round if answered else None,
        expires=runtime.clock_began + call.expires if _is_asked(slot) else None,
        entries=call.position,
        journal_bytes=slot.size,
    )


# ---- orphaned calls, whose node is gone, and stuck calls


def _scanned(runtime: Runtime, query: LeaseQuery) -> list[Found]:
    """The calls that the last orphan scan of this node found, and that pass the filters. One node of a fleet scans; on
    the others the list is empty."""
    if query.state in _ON_NODE:
        return []
    now = runtime.clock.time()
    views = (
        (_scanned_view(runtime, item), item)
        for item in runtime.orphan_scan.marked.calls
        if (slot := runtime.table.get(item.call)) is None or slot.frame is None
    )
    return [(*paging.key(query.sort, view), item) for view, item in views if _passes(query, view, now)]


def _passes(query: LeaseQuery, view: LeaseView, now: float) -> bool:
    """Whether a call that the orphan scan found passes the filters."""
    return (
        query.state in (None, view.state)
        and query.replayed in (None, view.replayed)
        and matches(query.node, view.node_id)
        and (query.call is None or view.call_id.startswith(query.call))
        and matches(query.tool, view.tool)
        and (query.expiring is None or (view.expires or 0.0) <= now + query.expiring)
    )


def _scanned_view(runtime: Runtime, item: Summary) -> LeaseView:
    stuck = runtime.orphan_scan.is_stuck(item)
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
        # A record outlives the last token of its call by this much (docs/protocol.md, rule 17).
        expires=max(0.0, item.expires - SKEW - runtime.settings.max_round),
    )
