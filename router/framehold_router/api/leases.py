"""Lists calls: each node lists its own calls, and the router merges their pages into one.

The law: no request scans the store. A node lists the table in its memory; the one node that looks for orphaned calls
also lists those that it found. All nodes get the same cursor, and each returns its first items after it. So the first
items of the whole fleet are among them.

A call may be listed twice: it moved between two answers, or it is listed as orphaned and runs again. The item with the
highest epoch counts; of two with the same epoch, the item of the node that holds the call.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable, Mapping

from pydantic import BaseModel

from framehold_core.ids import NodeId

from ..fleet.membership import Fleet, Member
from ..models.calls import LeaseQuery, LeasesView, LeaseView
from ..models.choices import State
from . import paging
from .node_client import MAX_ANSWER_BYTES, Unanswered
from .sources import Asked, Refused, Sources

PATH = "/admin/leases"
MAX_BYTES_PER_CALL = 2048
"""Bytes that one call may take in an answer. It usually takes about 500."""
_HELD = (State.PARKED, State.RUNNING)


async def answer(sources: Sources, asked: Asked) -> LeasesView:
    """`GET leases`."""
    assert isinstance(asked.query, LeaseQuery)
    query = asked.query
    if query.after is not None:
        try:
            paging.decode(query.after, query.sort)
        except ValueError as error:
            raise Refused(400, str(error)) from None
    members, missing = _asked(sources.fleet(), query)
    pages = await asyncio.gather(*(_page(sources, member, query) for member in members))
    missing += [member.node for member, page in zip(members, pages, strict=True) if page is None]
    # Two leases with one address give the same page object, which counts once.
    merged = merge(list({id(page): page for page in pages if page is not None}.values()), query)
    return LeasesView(items=merged.items, total=merged.total, next=merged.next, missing=tuple(missing))


async def one(sources: Sources, member: Member, call: str) -> LeaseView | None:
    """The call `call` (its full id) as `member` lists it; None if that node doesn't hold it.

    Raises:
        Unanswered: the node gave no answer that can be read.
    """
    page = await sources.node_client.ask(member, PATH, LeasesView, parameters(LeaseQuery(call=call, limit=1)))
    return next((item for item in page.items if item.call_id == call and item.state in _HELD), None)


def parameters(query: BaseModel) -> Mapping[str, str]:
    """The parameters of a query as texts for a URL, without those that have their default."""
    given = query.model_dump(mode="json", exclude_defaults=True)
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}


def merge(pages: list[LeasesView], query: LeaseQuery) -> LeasesView:
    """Merge pages of several nodes, which all answer `query`, into one."""
    best = _best(item for page in pages for item in page.items)
    last = [paging.key(query.sort, page.items[-1]) for page in pages if page.next is not None and page.items]
    # After the end of a page that is not the last of its node, items may be missing.
    horizon = (max if query.descending else min)(last) if last else None
    items: list[LeaseView] = []
    seen, more = None, bool(last)
    for item in heapq.merge(
        *(page.items for page in pages), key=lambda item: paging.key(query.sort, item), reverse=query.descending
    ):
        if best[item.call_id] is not item:
            continue
        place = paging.key(query.sort, item)
        if horizon is not None and (place < horizon if query.descending else place > horizon):
            break
        if len(items) == query.limit:
            more = True
            break
        items.append(item)
        seen = item
    doubles = sum(len(page.items) for page in pages) - len(best)
    total = max(sum(page.total for page in pages) - doubles, len(items))
    return LeasesView(items=items, total=total, next=_next(pages, query, seen) if more else None)


def _next(pages: list[LeasesView], query: LeaseQuery, seen: LeaseView | None) -> str:
    """The cursor after the item `seen`. If no item could be shown, the cursor after the page that ends first."""
    if seen is None:
        ends = [page.items[-1] for page in pages if page.next is not None and page.items]
        choose = max if query.descending else min
        seen = choose(ends, key=lambda item: paging.key(query.sort, item))
    return paging.encode(query.sort, seen)


def _best(items: Iterable[LeaseView]) -> dict[str, LeaseView]:
    best: dict[str, LeaseView] = {}
    for item in items:
        other = best.get(item.call_id)
        if other is None or (item.epoch, item.state in _HELD) > (other.epoch, other.state in _HELD):
            best[item.call_id] = item
    return best


def _asked(fleet: Fleet, query: LeaseQuery) -> tuple[list[Member], list[str]]:
    """The nodes that may know of the wanted calls, and the names of nodes that can't be asked."""
    if query.node is None:
        return list(fleet.members.values()), []
    named = fleet.members.get(NodeId(query.node))
    found = [named] if named is not None else []
    if query.state not in _HELD and fleet.members:
        # Orphaned calls of the named node are listed by the node that looks for them: the first by name.
        first = fleet.members[min(fleet.members)]
        found += [first] if first is not named else []
    return found, [] if found else [query.node]


async def _page(sources: Sources, member: Member, query: LeaseQuery) -> LeasesView | None:
    try:
        return await sources.node_client.ask(
            member, PATH, LeasesView, parameters(query), MAX_ANSWER_BYTES + MAX_BYTES_PER_CALL * query.limit
        )
    except Unanswered:
        return None
