"""Lists calls: each node lists its own calls, and the router merges their pages into one.

The law: no request scans the store. A node lists the table in its memory; the one node that looks for orphaned calls
also lists those that it found.

All answers to one request have MAX_ITEMS items together. So of a large fleet a long page may have fewer items than its
limit; its `next` says that there are more.

A call may be listed twice: it moved between two answers, or it is listed as orphaned and runs again. The item with the
highest epoch counts; of two with the same epoch, the item of the node that holds the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TypeVar

from pydantic import BaseModel

from framehold_fleet.members.membership import STRANGE, Fleet, Member
from framehold_fleet.models import paging
from framehold_fleet.models.calls import CallsQuery, CallsView, LeaseQuery, LeasesView, LeaseView
from framehold_fleet.models.choices import CallSort, Sort, State
from framehold_fleet.models.fields import matches

from ..collect.node_client import MAX_ANSWER_BYTES, Unanswered
from .sources import ApiRequest, RequestDenied, Sources

PATH = "/admin/leases"
MAX_BYTES_PER_CALL = 2048
"""Bytes that one call may take in an answer. It usually takes about 500."""
MAX_ITEMS = 10_000
"""Items that all nodes together may answer to one request; each takes about 2 KB of memory."""
_FEWEST = 20
_HELD = (State.PARKED, State.RUNNING)
PageT = TypeVar("PageT", LeasesView, CallsView)


async def answer(sources: Sources, asked: ApiRequest) -> LeasesView:
    """`GET leases`."""
    assert isinstance(asked.query, LeaseQuery)
    query = asked.query
    check_cursor(query.after, query.sort)
    members, missing = _asked(sources.fleet(), query)
    pages, silent = await gather(sources, members, PATH, LeasesView, query)
    merged = merge(pages, query)
    return LeasesView(items=merged.items, total=merged.total, next=merged.next, missing=(*missing, *silent))


def check_cursor(after: str | None, sort: Sort | CallSort) -> None:
    """Refuse a request whose cursor is no cursor of this order.

    Raises:
        Refused: it is not.
    """
    try:
        if after is not None:
            paging.decode(after, sort)
    except ValueError as error:
        raise RequestDenied(400, str(error)) from None


async def gather(
    sources: Sources, members: Sequence[Member], path: str, view: type[PageT], query: LeaseQuery | CallsQuery
) -> tuple[list[PageT], list[str]]:
    """The pages with which `members` answer `query`, and the names of those that gave no answer that can be read."""
    limit = min(query.limit, max(_FEWEST, MAX_ITEMS // max(1, len(members))))
    size = MAX_ANSWER_BYTES + MAX_BYTES_PER_CALL * limit
    wanted = parameters(query.model_copy(update={"limit": limit}))

    async def ask(member: Member) -> PageT | None:
        try:
            return await sources.node_client.ask(member, path, view, wanted, size)
        except Unanswered:
            return None

    pages = await asyncio.gather(*map(ask, members))
    silent = [str(member.node) for member, page in zip(members, pages, strict=True) if page is None]
    # Two leases with one address give the same page object, which counts once.
    return list({id(page): page for page in pages if page is not None}.values()), silent


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
    parts = [paging.Page(page.items, page.total, page.next) for page in pages]
    merged = paging.merge(parts, query, lambda item: (item.epoch, item.state in _HELD))
    return LeasesView(items=list(merged.items), total=merged.total, next=merged.next)


def _asked(fleet: Fleet, query: LeaseQuery) -> tuple[list[Member], list[str]]:
    """The nodes that may know of the wanted calls, and the names of nodes that can't be asked."""
    if query.node is None:
        return list(fleet.members.values()), []
    found = [member for member in fleet.members.values() if matches(query.node, member.node)]
    ours = [member for member in fleet.members.values() if member.state != STRANGE]
    if query.state not in _HELD and ours:
        # Orphaned calls of the named nodes are listed by the node that looks for them: the first by name.
        first = min(ours, key=lambda member: member.node)
        found += [first] if first not in found else []
    return found, [] if found else [query.node]
