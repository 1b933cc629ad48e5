"""Where a page of calls ends: the cursor that a router hands to all nodes alike.

The law: order is total and needs no memory. Calls are ordered by one of their values, and where that is equal by their
ids, so a cursor is the pair of the last call of a page: what comes after it may be asked of anybody. A value that is
missing counts as 0. A cursor is a client's text: whatever is no pair of the wanted kind is refused.
"""

from __future__ import annotations

import json
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode

from .about_calls import LeaseView, Sort

Key = tuple[float | str, str]
"""The value that calls are sorted by, and the call's id."""


def key(sort: Sort, item: LeaseView) -> Key:
    """What `item` is ordered by."""
    if sort is Sort.CALL:
        return item.call_id, item.call_id
    value: float | int | None = getattr(item, sort.value)
    return float(value or 0.0), item.call_id


def encode(sort: Sort, item: LeaseView) -> str:
    """The cursor of a page that ends with `item`."""
    text = json.dumps(key(sort, item), separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def decode(text: str, sort: Sort | None = None) -> Key:
    """The key of the last item of the page before.

    Raises:
        ValueError: it is no cursor, or not one of calls sorted by `sort`.
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
    # Beyond it a whole number is none that a float could be compared with.
    if abs(value) > 2**53 or math.isnan(value):
        raise _wrong()
    return float(value), call


def _wrong() -> ValueError:
    return ValueError("after is not the `next` of a page in this order; begin with the first page, without it")
