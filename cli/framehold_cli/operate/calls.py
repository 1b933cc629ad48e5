"""`framehold calls`: the calls that ended in the last hour, and how."""

from __future__ import annotations

import time
from typing import Any

from framehold_core import ids
from framehold_fleet.models.calls import CallsView, EndedCallView

from ..client.api import ApiClient
from ..show import figures
from ..show.sheet import Grid, Sheet
from .lease import how
from .listed import filters, notes

_FILTERS = ("failed", "outcome", "tool", "node", "call")
_HEADS = ("CALL", "TOOL", "NODE", "ENDED", "TOOK", "ROUNDS", "HOW")


def calls(api: ApiClient, query: dict[str, Any]) -> Sheet:
    """A sheet of one page of ended calls. `query` has the fields of `CallsQuery`.

    Raises:
        Refused: a filter is invalid; the message names it.
    """
    answer, now = api.get("calls", CallsView, **query), time.time()
    view, items = answer.view, answer.view.items
    grid = Grid(_HEADS, [_row(item, now) for item in items], "" if items else _none(query))
    return Sheet([grid, *notes(view, "--limit shows more")], answer.raw, view)


def _none(query: dict[str, Any]) -> str:
    given = filters(query, _FILTERS)
    if not given:
        return "No call ended in the last hour."
    return f"No call that ended in the last hour passes the filter ({given})."


def _row(item: EndedCallView, now: float) -> list[str]:
    return [
        ids.prefix(item.call_id),
        item.tool,
        figures.cell(item.node_id),
        f"{figures.since(item.ended, now)} ago",
        figures.quick(item.seconds),
        str(item.rounds),
        how(item.outcome, item.error, item.place),
    ]
