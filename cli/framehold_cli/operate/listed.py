"""What `framehold calls` and `framehold leases` print beside their rows: the filters, and what is not in the list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from framehold_fleet.models.calls import CallsView, LeasesView

from ..show.sheet import lines


def filters(query: dict[str, Any], names: Iterable[str]) -> str:
    """The filters that `query` has, as `state parked, tool book`; empty if it has none of `names`."""
    given = ((name, query[name]) for name in names if query.get(name) is not None)
    return ", ".join(f"{name} {str(value).lower() if isinstance(value, bool) else value}" for name, value in given)


def notes(view: CallsView | LeasesView, more: str) -> list[str]:
    """The part of a sheet below the rows of `view`; no part if the list is complete. `more` says how to list the other
    calls."""
    found = []
    if view.next is not None:
        found.append(f"{len(view.items):,} of {view.total:,}; {more}, -o json has where the next page begins")
    if isinstance(view, CallsView) and view.stale:
        found.append("the store can't be read: calls may be missing that ended since it last could")
    if isinstance(view, LeasesView) and view.missing:
        found.append(f"not among these are calls on {', '.join(view.missing)}: no answer came from there")
    return [lines(found)] if found else []
