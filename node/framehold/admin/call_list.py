"""The list of the calls that ended on a node, for operators: filtered, sorted, and one page at a time. It is short
enough to be made in one turn of the loop: a millisecond."""

from __future__ import annotations

from framehold_core.ending import FAILED
from framehold_router.api import paging
from framehold_router.models.calls import CallsQuery, CallsView, EndedCallView
from framehold_router.models.fields import printable

from ..telemetry.recent_calls import EndedCall, RecentCalls


def calls(recent: RecentCalls, node: str, query: CallsQuery) -> CallsView:
    """A page of the calls that ended on this node, whose name is `node`.

    Raises:
        ValueError: `after` is not the `next` of a page in this order.
    """
    after = None if query.after is None else paging.decode(query.after, query.sort)
    views = [_view(item, node) for item in recent if _passes(item, node, query)]
    keyed = [(paging.key(query.sort, view), view) for view in views]
    if after is not None:
        keyed = [item for item in keyed if (item[0] < after if query.descending else item[0] > after)]
    keyed.sort(key=lambda item: item[0], reverse=query.descending)
    page = [view for _, view in keyed[: query.limit]]
    following = paging.encode(query.sort, page[-1]) if len(keyed) > query.limit else None
    return CallsView(items=page, total=len(views), next=following)


def _passes(item: EndedCall, node: str, query: CallsQuery) -> bool:
    """Whether an ended call passes the filters."""
    return (
        query.node in (None, node)
        and query.outcome in (None, item.ending.how)
        and query.failed in (None, item.ending.how in FAILED)
        and (query.call is None or item.call.startswith(query.call))
        and (query.tool is None or printable(query.tool) == printable(item.tool))
    )


def _view(item: EndedCall, node: str) -> EndedCallView:
    return EndedCallView(
        call_id=item.call,
        tool=item.tool,
        node_id=node,
        outcome=item.ending.how.value,
        error=item.ending.error,
        place=item.ending.place,
        rounds=item.rounds,
        reentrant=item.reentrant,
        replayed=item.replayed,
        began=item.began,
        ended=item.ended,
        seconds=max(0.0, item.ended - item.began),
    )
