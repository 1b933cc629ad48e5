"""Lists the calls that ended in the last hour: each node lists those that ended on it, and the router merges their
pages.

The law: nothing of it is stored. What a node saw goes with its process. A call that ended on two nodes, as one that
diverged here and went on there, is listed as it ended last.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

from framehold_core.ids import NodeId

from ..config import TRACE_ID
from ..models.calls import CallFacets, CallsQuery, CallsView, EndedCallView
from ..models.fields import matches
from . import leases, paging
from .sources import Asked, Sources

PATH = "/admin/calls"


async def answer(sources: Sources, asked: Asked) -> CallsView:
    """`GET calls`."""
    query = asked.query
    assert isinstance(query, CallsQuery)
    leases.check_cursor(query.after, query.sort)
    members, missing = list(sources.fleet().members.values()), list[str]()
    if query.node is not None:
        named = [member for member in members if matches(query.node, member.node)]
        missing = [] if named else [query.node]
        members = members if query.facets else named
    pages, silent = await leases.gather(sources, members, PATH, CallsView, query)
    parts = [paging.Page(page.items, page.total, page.next) for page in pages]
    merged = paging.merge(parts, query, lambda item: item.ended)
    return CallsView(
        items=[traced(sources, item) for item in merged.items],
        total=merged.total,
        next=merged.next,
        facets=_added(page.facets for page in pages) if query.facets else None,
        missing=(*missing, *silent),
    )


def traced(sources: Sources, ended: EndedCallView) -> EndedCallView:
    """The call with the address of its trace, if it has a trace and this router knows where traces are shown."""
    if not (sources.trace_url and ended.trace_id):
        return ended
    return ended.model_copy(update={"trace_url": sources.trace_url.replace(TRACE_ID, ended.trace_id)})


def _added(facets: Iterable[CallFacets | None]) -> CallFacets:
    """The counts of all nodes. A node of an earlier release counts nothing."""
    found = [item for item in facets if item is not None]

    def total(facet: str) -> dict[str, int]:
        counts = sum((Counter(getattr(item, facet)) for item in found), Counter[str]())
        return dict(counts.most_common())

    return CallFacets(outcome=total("outcome"), tool=total("tool"), node=total("node"))


async def one(sources: Sources, call: str, node: str | None = None) -> EndedCallView | None:
    """How `call` (its full id) ended last, as the nodes of the fleet, or `node` alone, saw it; None if none lists it.
    Nodes that do not answer are left out."""
    members = sources.fleet().members
    asked = list(members.values()) if node is None else [found for found in (members.get(NodeId(node)),) if found]
    query = leases.parameters(CallsQuery(call=call, limit=1))
    requests = (sources.node_client.ask(member, PATH, CallsView, query) for member in asked)
    pages = await asyncio.gather(*requests, return_exceptions=True)
    found = [item for page in pages if isinstance(page, CallsView) for item in page.items if item.call_id == call]
    last = max(found, key=lambda item: item.ended, default=None)
    return None if last is None else traced(sources, last)
