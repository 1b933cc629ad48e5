"""Lists the calls that ended in the last hour: each node lists those that ended on it, and the router merges their
pages.

The law: nothing of it is stored. What a node saw goes with its process. A call that ended on two nodes, as one that
diverged here and went on there, is listed as it ended last.
"""

from __future__ import annotations

import asyncio

from framehold_core.ids import NodeId

from ..models.calls import CallsQuery, CallsView, EndedCallView
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
        members = [member for member in members if member.node == query.node]
        missing = [] if members else [query.node]
    pages, silent = await leases.gather(sources, members, PATH, CallsView, query)
    parts = [paging.Page(page.items, page.total, page.next) for page in pages]
    merged = paging.merge(parts, query, lambda item: item.ended)
    return CallsView(items=list(merged.items), total=merged.total, next=merged.next, missing=(*missing, *silent))


async def one(sources: Sources, call: str, node: str | None = None) -> EndedCallView | None:
    """How `call` (its full id) ended last, as the nodes of the fleet, or `node` alone, saw it; None if none lists it.
    Nodes that do not answer are left out."""
    members = sources.fleet().members
    asked = list(members.values()) if node is None else [found for found in (members.get(NodeId(node)),) if found]
    query = leases.parameters(CallsQuery(call=call, limit=1))
    requests = (sources.node_client.ask(member, PATH, CallsView, query) for member in asked)
    pages = await asyncio.gather(*requests, return_exceptions=True)
    found = [item for page in pages if isinstance(page, CallsView) for item in page.items if item.call_id == call]
    return max(found, key=lambda item: item.ended, default=None)
