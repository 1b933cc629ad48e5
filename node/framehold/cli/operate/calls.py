"""`framehold calls`: the calls that ended in the last hour, and how."""

from __future__ import annotations

import time
from typing import Any

from framehold_core import ids
from framehold_router.models.calls import CallsView, EndedCallView

from ..client.api import Answer, Api
from ..show import figures
from ..show.sheet import Grid, Sheet, lines
from .lease import how

_FILTERS = ("failed", "outcome", "tool", "node", "call")
_HEADS = ("CALL", "TOOL", "NODE", "ENDED", "TOOK", "ROUNDS", "HOW")


def calls(api: Api, query: dict[str, Any]) -> Sheet:
    """A sheet of one page of ended calls. `query` has the fields of `CallsQuery`.

    Raises:
        Refused: a filter is invalid; the message names it.
    """
    answer, now = api.get("calls", CallsView, **query), time.time()
    items = answer.view.items
    grid = Grid(_HEADS, [_row(item, now) for item in items], "" if items else _none(query))
    notes = lines(_notes(answer, len(items)))
    return Sheet([grid, *([notes] if notes else [])], answer.raw, answer.view)


def _none(query: dict[str, Any]) -> str:
    filters = [f"{name} {query[name]}" for name in _FILTERS if query.get(name) is not None]
    if not filters:
        return "No call ended in the last hour."
    return f"No call that ended in the last hour passes the filter ({', '.join(filters).lower()})."


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


def _notes(answer: Answer[CallsView], shown: int) -> list[str]:
    view, notes = answer.view, []
    if view.next is not None:
        notes.append(f"{shown:,} of {view.total:,}; --limit shows more, -o json has where the next page begins")
    if view.missing:
        notes.append(f"not among these are calls of {', '.join(view.missing)}: no answer came from there")
    return notes
