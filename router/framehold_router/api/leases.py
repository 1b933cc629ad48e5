"""Lists calls: each node lists its own, and the pages are merged into one.

The law: no scan. A node walks the table that it has in memory, and the node that looks for orphans has marked them. All
nodes are handed one cursor, and each gives its first items after it, so the first items of all are among them.

A call may be listed twice: it moved between two answers, or is marked as orphaned and runs again. The listing of the
highest epoch counts, of equal ones the one that is no mark.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable, Mapping

from pydantic import BaseModel

from framehold_core.ids import NodeId

from ..membership import Fleet, Member
from . import paging
from .about_calls import LeaseQuery, LeasesView, LeaseView, State
from .ask import LONGEST, Unanswered
from .sources import Asked, Refused, Sources

PATH = "/admin/leases"
ITEM = 2048
"""Bytes that one call may take in an answer; it takes about 500."""
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
    said = await asyncio.gather(*(_page(sources, member, query) for member in members))
    missing += [member.node for member, page in zip(members, said, strict=True) if page is None]
    # Of two leases that lead to one node each has the same page.
    merged = merge(list({id(page): page for page in said if page is not None}.values()), query)
    return LeasesView(items=merged.items, total=merged.total, next=merged.next, missing=tuple(missing))


async def one(sources: Sources, member: Member, call: str) -> LeaseView | None:
    """What `member` says of a call, by its whole id; None where it doesn't hold it.

    Raises:
        Unanswered: it does not say.
    """
    said = await sources.asker.ask(member, PATH, LeasesView, parameters(LeaseQuery(call=call, limit=1)))
    return next((item for item in said.items if item.call_id == call and item.state in _HELD), None)


def parameters(query: BaseModel) -> Mapping[str, str]:
    """A query as the text of a URL wants it."""
    said = query.model_dump(mode="json", exclude_defaults=True)
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in said.items()}


def merge(pages: list[LeasesView], query: LeaseQuery) -> LeasesView:
    """One page of several, all of which answer `query`."""
    best = _best(item for page in pages for item in page.items)
    last = [paging.key(query.sort, page.items[-1]) for page in pages if page.next is not None and page.items]
    # Beyond the end of a page that has a next one there may be items that are not here.
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
    """The cursor behind `seen`; where all that could be shown stands elsewhere too, behind the first page's end."""
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
    """Who may know of the wanted calls, and who can't be asked."""
    if query.node is None:
        return list(fleet.members.values()), []
    named = fleet.members.get(NodeId(query.node))
    found = [named] if named is not None else []
    if query.state not in _HELD and fleet.members:
        # Calls that a former life of it left behind are marked by the first node by name.
        first = fleet.members[min(fleet.members)]
        found += [first] if first is not named else []
    return found, [] if found else [query.node]


async def _page(sources: Sources, member: Member, query: LeaseQuery) -> LeasesView | None:
    try:
        return await sources.asker.ask(member, PATH, LeasesView, parameters(query), LONGEST + ITEM * query.limit)
    except Unanswered:
        return None
