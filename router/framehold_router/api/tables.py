"""Writes lists as CSV: a header row, and one row for each item.

The law: a spreadsheet that opens the file must not run formulas. A text that begins with a sign of a formula gets an
apostrophe in front. The csv module does the quoting.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel

from framehold_fleet.models.calls import CallsView, EndedCallView, LeasesView, LeaseView
from framehold_fleet.models.capacity import CapacityView, ResourceView
from framehold_fleet.models.events import EventsView, EventView, FailoversView, FailoverView
from framehold_fleet.models.nodes import NodesView, NodeView, RingNodeView, RingView
from framehold_fleet.models.tools import ToolsView, ToolView

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_PHASES = ("detect", "claim", "replay", "resume", "total")


def table(view: BaseModel) -> str | None:
    """`view` as CSV; None if it is no list."""
    if isinstance(view, FailoversView):
        return _csv(_failover_columns(), map(_failover, view.failovers))
    lists: tuple[tuple[type[BaseModel], type[BaseModel], str], ...] = (
        (NodesView, NodeView, "nodes"),
        (LeasesView, LeaseView, "items"),
        (CallsView, EndedCallView, "items"),
        (EventsView, EventView, "events"),
        (RingView, RingNodeView, "nodes"),
        (CapacityView, ResourceView, "resources"),
        (ToolsView, ToolView, "tools"),
    )
    for kind, item, name in lists:
        if isinstance(view, kind):
            # No cell can hold a model.
            columns = tuple(name for name, field in item.model_fields.items() if not _has_model(field.annotation))
            return _csv(columns, (row.model_dump(mode="json") for row in getattr(view, name)))
    return None


def _has_model(kind: Any) -> bool:
    """Whether values of this type are models, or have some in them."""
    return any(map(_has_model, get_args(kind))) or (isinstance(kind, type) and issubclass(kind, BaseModel))


def _failover_columns() -> tuple[str, ...]:
    """The columns of a failover: one for each duration, and the number of calls instead of the calls."""
    plain = (name for name in FailoverView.model_fields if name not in ("durations", "calls"))
    return (*plain, *(f"{phase}_seconds" for phase in _PHASES), "calls")


def _failover(item: FailoverView) -> Mapping[str, Any]:
    row: dict[str, Any] = item.model_dump(mode="json", exclude={"durations", "calls"})
    row |= {f"{phase}_seconds": item.durations.get(phase) for phase in _PHASES}
    return row | {"calls": len(item.calls)}


def _csv(columns: tuple[str, ...], rows: Iterable[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row[name]) for name in columns])
    return text.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        value = " ".join("-" if item is None else str(item) for item in value)
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    return str(value)
