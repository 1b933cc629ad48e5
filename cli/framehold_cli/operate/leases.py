"""`framehold leases`: the calls that nodes hold, and those that wait for a node, page by page; and how many there are,
also of those that no list has."""

from __future__ import annotations

import time
from typing import Any

from framehold_core import ids
from framehold_fleet.models.calls import LeasesView, LeaseView
from framehold_fleet.models.choices import State
from framehold_fleet.models.nodes import OverviewView
from framehold_fleet.models.open_calls import OpenView
from framehold_router.verdict.wording import STUCK

from ..client.api import ApiClient, ApiResponse
from ..show import figures
from ..show.sheet import Grid, Sheet, facts
from .listed import filters, notes

_FILTERS = ("state", "expiring", "replayed", "tool", "node", "call")
_HEADS = (
    *("CALL", "TOOL", "NODE", "STATE", "ROUND", "EPOCH", "AGE", "RESUMED", "EXPIRES", "JOURNAL", "RE-ENTRANT"),
    "REPLAYED",
)


def leases(api: ApiClient, query: dict[str, Any], every: bool = False) -> Sheet:
    """A sheet of one page of calls, or of all pages if `every` is set, and of how many are open. `query` has the
    fields of `LeaseQuery`.

    Raises:
        Refused: a filter is invalid; the message names it.
    """
    pages = list(api.all_leases(**query)) if every else [api.get("leases", LeasesView, **query)]
    items, now = [item for page in pages for item in page.view.items], time.time()
    grid = Grid(_HEADS, [_row(item, now) for item in items], "" if items else _none(api, query))
    view = pages[-1].view.model_copy(update={"items": items, "missing": _missing(pages)})
    account = facts(accounted(api.get("overview", OverviewView).view.open))
    return Sheet([grid, *notes(view, "--all lists the others too"), account], _whole(pages), view)


def accounted(found: OpenView) -> list[tuple[str, str]]:
    """The account of open calls: a name and a text for each line."""
    held, asleep, handed_off = found.held.text, found.asleep.text, found.handed_off.text
    lines = [
        ("open", f"{found.total:,}: held {held}; asleep {asleep}; handed off: {handed_off}"),
        ("orphaned", found.orphaned.text),
    ]
    lost = found.lost_last_hour
    return (
        [*lines, ("lost", f"{lost:,} in the last hour, with their process or with a cancelled round")]
        if lost
        else lines
    )


def _none(api: ApiClient, query: dict[str, Any]) -> str:
    """The text for an empty list. It names the filters, because a wrong filter looks like a fleet without calls."""
    given = filters(query, _FILTERS)
    if not given:
        return "No call is listed."
    others = api.get("leases", LeasesView, limit=1).view.total
    return f"No call passes the filter ({given}); without it there are {others:,}."


def _row(item: LeaseView, now: float) -> list[str]:
    return [
        ids.prefix(item.call_id),
        item.tool,
        figures.cell(item.node_id),
        item.state,
        str(item.round),
        str(item.epoch),
        figures.since(item.began, now),
        figures.since(item.resumed, now),
        figures.left(item.expires, now),
        figures.size(item.journal_bytes),
        _yes(item.reentrant),
        _yes(item.replayed),
    ]


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _missing(pages: list[ApiResponse[LeasesView]]) -> list[str]:
    return list(dict.fromkeys(name for page in pages for name in page.view.missing))


def _whole(pages: list[ApiResponse[LeasesView]]) -> dict[str, Any]:
    """The JSON of all pages as one page, in the shape of the router's reply."""
    items = [item for page in pages for item in page.raw["items"]]
    return {**pages[-1].raw, "items": items, "missing": _missing(pages)}


def consequence(item: LeaseView) -> str:
    """What will happen to a call, in a few words."""
    if item.state is State.STUCK:
        return STUCK
    if item.state is State.ORPHANED:
        return (
            "its client's next retry replays it on another node"
            if item.reentrant
            else "not re-entrant: its client's next retry is told that it is lost"
        )
    return "it goes on when its client answers" if item.state is State.PARKED else "its round is under way"
