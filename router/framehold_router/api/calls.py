"""Lists the calls that ended in the last hour, as this router has read them from the store: filtered, sorted, and one
page at a time.

The law: other tasks run between two portions of the calls.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from functools import cache, partial
from itertools import islice

from framehold_core.ending import FAILED
from framehold_fleet.models import paging
from framehold_fleet.models.calls import CallFacets, CallsQuery, CallsView, EndedCallView
from framehold_fleet.models.fields import matches

from ..config import TRACE_ID
from . import leases
from .sources import ApiRequest, Sources

PORTION = 1000
"""Calls that one turn of the loop looks at: two milliseconds."""


async def answer(sources: Sources, asked: ApiRequest) -> CallsView:
    """`GET calls`."""
    query = asked.query
    assert isinstance(query, CallsQuery)
    leases.check_cursor(query.after, query.sort)
    known = await sources.ended.known()
    passing, facets = await _sifted(known.calls.values(), query)
    key = partial(paging.key, query.sort)
    rest: Iterable[EndedCallView] = passing
    if query.after is not None:
        after = paging.decode(query.after, query.sort)
        rest = (item for item in passing if (key(item) < after if query.descending else key(item) > after))
    ordered = sorted(rest, key=key, reverse=query.descending)
    page = ordered[: query.limit]
    return CallsView(
        items=[traced(sources, item) for item in page],
        total=len(passing),
        next=paging.encode(paging.key(query.sort, page[-1])) if len(ordered) > len(page) else None,
        facets=facets if query.facets else None,
        stale=known.stale,
    )


async def _sifted(calls: Iterable[EndedCallView], query: CallsQuery) -> tuple[list[EndedCallView], CallFacets]:
    """The calls that pass all filters; and how many there are by outcome, by tool and by node, each without its own
    filter, the most first."""
    of_tool, of_node = cache(partial(matches, query.tool)), cache(partial(matches, query.node))
    of_outcome = cache(lambda how: query.outcome in (None, how) and query.failed in (None, how in FAILED))
    passing = list[EndedCallView]()
    outcomes, tools, nodes = Counter[str](), Counter[str](), Counter[str]()
    rest = iter(calls)
    while portion := list(islice(rest, PORTION)):
        for item in portion:
            if query.call is not None and not item.call_id.startswith(query.call):
                continue
            tool, outcome, node = of_tool(item.tool), of_outcome(item.outcome), of_node(item.node_id)
            outcomes[item.outcome] += tool and node
            tools[item.tool] += outcome and node
            nodes[item.node_id] += tool and outcome
            if tool and outcome and node:
                passing.append(item)
        await asyncio.sleep(0)
    counts = {"outcome": outcomes, "tool": tools, "node": nodes}
    return passing, CallFacets(**{name: dict((+count).most_common()) for name, count in counts.items()})


def traced(sources: Sources, ended: EndedCallView) -> EndedCallView:
    """The call with the address of its trace, if it has a trace and this router knows where traces are shown."""
    if not (sources.trace_url and ended.trace_id):
        return ended
    return ended.model_copy(update={"trace_url": sources.trace_url.replace(TRACE_ID, ended.trace_id)})


async def one(sources: Sources, call: str) -> EndedCallView | None:
    """How `call` (its full id) ended last; None if that is not known."""
    found = (await sources.ended.known()).calls.get(call)
    return None if found is None else traced(sources, found)
