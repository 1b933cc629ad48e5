"""The cursor of a page of calls: the router sends one cursor to all nodes.

The law: the order is total, and no server keeps state between two pages. Calls are ordered by one of their values, and
calls with equal values by their ids. A cursor is the pair (value, id) of the last call of a page, so any node can list
the calls after it. A missing value counts as 0. A cursor comes from a client, so it is validated.
"""

from __future__ import annotations

import json
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode

from ..models.calls import LeaseView
from ..models.choices import Sort

Key = tuple[float | str, str]
"""The value that calls are sorted by, and the call's id."""


def key(sort: Sort, item: LeaseView) -> Key:
    """The key by which `item` is ordered."""
    if sort is Sort.CALL:
        return item.call_id, item.call_id
    value: float | int | None = getattr(item, sort.value)
    return float(value or 0.0), item.call_id


def encode(sort: Sort, item: LeaseView) -> str:
    """The cursor of a page that ends with `item`."""
    text = json.dumps(key(sort, item), separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def decode(text: str, sort: Sort | None = None) -> Key:
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
