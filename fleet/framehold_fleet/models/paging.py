"""Pages of a list of calls that each node has a part of: the cursor, which the router sends to all nodes, and the
merging of their pages.

The law: the order is total, and no server keeps state between two pages. Calls are ordered by one of their values, and
calls with equal values by their ids. A cursor is the pair (value, id) of the last call of a page, so any node can list
the calls after it. A missing value counts as 0. A cursor comes from a client, so it is validated.

All nodes get the same cursor, and each returns its first items after it. So the first items of the whole fleet are
among them.
"""

from __future__ import annotations

import json
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from .calls import CallsQuery, EndedCallView, LeaseQuery, LeaseView
from .choices import CallSort, Sort
from .fields import summed

Key = tuple[float | str, str]
"""The value that calls are sorted by, and the call's id."""
Listed = LeaseView | EndedCallView
ListedT = TypeVar("ListedT", LeaseView, EndedCallView)


class Page(NamedTuple, Generic[ListedT]):
    """A page of calls: its items in order, the number of all calls that match, and the cursor of the next page."""

    items: Sequence[ListedT]
    total: int
    next: str | None


def key(sort: Sort | CallSort, item: Listed) -> Key:
    """The key by which `item` is ordered."""
    if sort is Sort.CALL:
        return item.call_id, item.call_id
    value: float | int | None = getattr(item, sort.value)
    return float(value or 0.0), item.call_id


def encode(end: Key) -> str:
    """The cursor of a page that ends with the item that has this key."""
    text = json.dumps(end, separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def decode(text: str, sort: Sort | CallSort | None = None) -> Key:
    """The key in a cursor: that of the last item of the page before.

    Raises:
        ValueError: `text` is no cursor, or a cursor of another order than `sort`.
    """
    try:
        pair = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, RecursionError) as error:
        raise _wrong() from error
    if not isinstance(pair, list) or len(pair) != 2:
        raise _wrong()
    value, call = pair
    if type(value) not in (float, int, str) or not isinstance(call, str):
        raise _wrong()
    if sort is not None and isinstance(value, str) is not (sort is Sort.CALL):
        raise _wrong()
    if isinstance(value, str):
        return value, call
    # A larger integer has no exact float to compare with.
    if abs(value) > 2**53 or math.isnan(value):
        raise _wrong()
    return float(value), call


def _wrong() -> ValueError:
    return ValueError("after is not the `next` of a page in this order; begin with the first page, without it")


def merge(
    pages: Sequence[Page[ListedT]], query: LeaseQuery | CallsQuery, rank: Callable[[ListedT], Any]
) -> Page[ListedT]:
    """Merge pages of several nodes, which all answer `query`, into one. A call that is listed twice counts once: the
    item with the highest `rank`."""
    best = _best((item for page in pages for item in page.items), rank)
    ends = [_end(page.next, page.items[-1], query) for page in pages if page.next is not None and page.items]
    # After the end of a page that is not the last of its node, items may be missing.
    horizon = (max if query.descending else min)(ends) if ends else None
    items: list[ListedT] = []
    # If all up to there are shown, the next page begins after the page that ends first.
    end, more = horizon, bool(ends)
    place_of = partial(key, query.sort)
    # A node shows its items as they stand at the end, so one that changed is out of its place.
    for item in sorted((item for page in pages for item in page.items), key=place_of, reverse=query.descending):
        if best[item.call_id] is not item:
            continue
        place = place_of(item)
        if horizon is not None and (place < horizon if query.descending else place > horizon):
            break
        if len(items) == query.limit:
            end, more = place_of(items[-1]), True
            break
        items.append(item)
    doubles = sum(len(page.items) for page in pages) - len(best)
    total = max(summed(page.total for page in pages) - doubles, len(items))
    if end is not None and query.after is not None:
        # Items that are shown may have gone back, before this page.
        end = (min if query.descending else max)(end, decode(query.after, query.sort))
    return Page(items, total, encode(end) if more and end is not None else None)


def _end(following: str, last: Listed, query: LeaseQuery | CallsQuery) -> Key:
    """The key that the cursor `following` of a node's page names, whatever its last item has become; the key of that
    item if it is no cursor."""
    try:
        return decode(following, query.sort)
    except ValueError:
        return key(query.sort, last)


def _best(items: Iterable[ListedT], rank: Callable[[ListedT], Any]) -> dict[str, ListedT]:
    best: dict[str, ListedT] = {}
    for item in items:
        other = best.get(item.call_id)
        if other is None or rank(item) > rank(other):
            best[item.call_id] = item
    return best
