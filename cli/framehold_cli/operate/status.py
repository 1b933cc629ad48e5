"""`framehold status`: is anything stuck, where, why, and what will happen to it.

The law: the exit code is that of the problems which the router reports: 1 if users are harmed now (a line begins with
`!!`), 2 if something will harm them (`!`), else 0. Trouble that ends without an operator is shown too, with what will
happen, and the exit code is 0.
"""

from __future__ import annotations

from framehold_core import ids
from framehold_fleet.members.store_health import ANSWERS
from framehold_fleet.models.calls import LeasesView
from framehold_fleet.models.choices import State
from framehold_fleet.models.events import EventKind, EventView, FailoversView
from framehold_fleet.models.nodes import OverviewView

from ..client.api import ApiClient
from ..show import figures
from ..show.sheet import Grid, Sheet, facts
from .leases import accounted, consequence
from .problems import exit_code, shown

_MAX_EVENTS = 5
_GRAVE = {
    EventKind.LOST,
    EventKind.STUCK,
    EventKind.DIVERGED,
    EventKind.NODE_LOST,
    EventKind.STORE_SILENT,
    EventKind.LEASE_LAPSED,
}
_MAX_CALLS = 5
"""Calls that are shown of each kind: stuck and orphaned."""


def status(api: ApiClient) -> Sheet:
    """A sheet about the whole fleet: its figures, what needs an operator, calls that wait, and the last events."""
    answer = api.get("overview", OverviewView)
    view, problems = answer.view, answer.view.problems
    known = facts([*_facts(view), ("failovers", _failovers(api, view))])
    parts: list[Grid | str] = [known]
    if problems:
        parts.append(shown(problems))
    waiting = _waiting(api, view)
    if waiting.rows:
        parts.append(waiting)
    parts.append(_events(_shown_events(view.events), view.at))
    return Sheet(parts, answer.raw, code=exit_code(problems))


def _facts(view: OverviewView) -> list[tuple[str, str]]:
    states = ", ".join(f"{count} {state}" for state, count in sorted(view.nodes.items()) if count)
    rate = "-" if view.rounds_per_second is None else f"{view.rounds_per_second:,.1f}"
    stuck = f"{view.stuck:,}" if view.stuck else "none"
    median, worst = figures.quick(view.resume_p50), figures.quick(view.resume_p99)
    resumed = f"p50 {median}, p99 {worst} (the slowest node's)"
    affinity = f"{figures.part(view.affinity)} of retries met the frame of their call"
    quiet = "nothing in the last minute"
    return [
        ("nodes", f"{states or 'none'} (router {view.version})"),
        ("calls", f"{view.parked:,} parked, {view.in_flight:,} in flight, {rate} rounds/s"),
        ("resume", quiet if view.resume_p50 is None and view.resume_p99 is None else resumed),
        ("affinity", quiet if view.affinity is None else affinity),
        ("store", _store(view, quiet)),
        ("stuck", stuck),
        *accounted(view.open),
        *_routers(view),
    ]


def _routers(view: OverviewView) -> list[tuple[str, str]]:
    """The routers, where the one that answers knows of any: itself, after a moment."""
    shown = ", ".join(one.name + (" (lost)" if one.state == "lost" else "") for one in view.routers)
    return [("routers", shown)] if shown else []


def _store(view: OverviewView, quiet: str) -> str:
    shown = quiet if view.store_seconds is None else f"{figures.quick(view.store_seconds)} a write"
    if view.store != ANSWERS:
        shown = view.store
    if view.store_used is None or not view.store_limit:
        return shown
    return f"{shown}, {figures.size(view.store_used)} of {figures.size(view.store_limit)} in use"


def _failovers(api: ApiClient, view: OverviewView) -> str:
    """The number of failovers, and the progress of the last one. It counts a call when the call's client has
    retried."""
    if not view.failovers_last_hour:
        return "none in the last hour"
    count_text = f"{view.failovers_last_hour:,} in the last hour"
    failovers = api.get("failovers", FailoversView).view.failovers
    latest = next((failover for failover in failovers if not failover.planned), None)
    if latest is None:
        return count_text
    counts = (("recovered", latest.recovered), ("lost", latest.lost), ("stuck", latest.stuck))
    so_far = ", ".join(f"{count:,} {name}" for name, count in (*counts, ("failed", latest.failed)) if count)
    return f"{count_text}; of the last one ({latest.node_id}), of those whose clients came back: {so_far or 'none yet'}"


def _shown_events(events: list[EventView]) -> list[EventView]:
    """The events to show, in their order. Grave events are chosen first, so that others don't push them out."""
    chosen = sorted(events, key=lambda event: event.kind not in _GRAVE)[:_MAX_EVENTS]
    return [event for event in events if event in chosen]


def _waiting(api: ApiClient, view: OverviewView) -> Grid:
    """Some of the stuck and the orphaned calls, each with what will happen to it."""
    rows = []
    for state, count in ((State.STUCK, view.stuck), (State.ORPHANED, view.open.orphaned.count)):
        if not count:
            continue
        for item in api.get("leases", LeasesView, state=state, limit=_MAX_CALLS).view.items[:_MAX_CALLS]:
            age = figures.since(item.began, view.at)
            rows.append([ids.prefix(item.call_id), item.tool, item.state, item.node_id, age, consequence(item)])
    return Grid(("CALL", "TOOL", "STATE", "LAST NODE", "AGE", "WHAT BECOMES OF IT"), rows)


def _events(events: list[EventView], now: float) -> Grid:
    rows = [
        [
            figures.clock(one.at, now),
            one.kind.replace("_", " "),
            figures.cell(one.node_id),
            figures.cell(one.call),
            one.text,
        ]
        for one in events
    ]
    return Grid(
        ("AT", "EVENT", "NODE", "CALL", "WHAT HAPPENED"), rows, "Nothing has happened that this router knows of."
    )
