"""`framehold nodes`, `framehold ring` and `framehold capacity`: the nodes of a router, their shares of new calls, and
how full they are."""

from __future__ import annotations

import time

from framehold_fleet.models.capacity import CapacityView, ResourceView
from framehold_fleet.models.nodes import NodesView, NodeView, OverviewView, RingView

from ..client.api import ApiClient
from ..show import figures
from ..show.sheet import Grid, Sheet
from .problems import shown

_NODES = (
    *("NODE", "STATE", "PARKED", "IN FLIGHT", "RESUME P99", "LAG P99", "MEMORY", "HEARTBEAT", "UP", "PID", "VERSION"),
    "ADDRESS",
)


def nodes(api: ApiClient) -> Sheet:
    """A sheet of the nodes that the router knows, with their problems below. Its JSON is the list of nodes."""
    answer, now = api.get("nodes", NodesView), time.time()
    of_nodes = [problem for problem in api.get("overview", OverviewView).view.problems if problem.node]
    found = answer.view.nodes
    grid = Grid(_NODES, [_node(one, now) for one in found], "There is no node.")
    return Sheet([grid, *([shown(of_nodes)] if of_nodes else [])], answer.raw["nodes"], answer.view)


def _node(one: NodeView, now: float) -> list[str]:
    memory = figures.size(one.rss)
    if one.rss is not None and one.memory_limit:
        memory += f" ({one.rss / one.memory_limit:.0%})"
    return [
        one.node_id,
        one.shown,
        figures.cell(one.parked),
        figures.cell(one.in_flight),
        figures.quick(one.resume_p99),
        figures.quick(one.loop_lag_p99),
        memory,
        figures.quick(one.heartbeat_age),
        figures.since(one.started, now),
        figures.cell(one.pid),
        figures.cell(one.version),
        figures.cell(f"{one.address}{one.prefix or ''}"),
    ]


def ring(api: ApiClient) -> Sheet:
    """A sheet of each node's share of new calls."""
    answer = api.get("ring", RingView)
    view = answer.view
    rows = [
        [one.node_id, one.state, figures.part(one.share), figures.part(one.ideal_share), str(one.points)]
        for one in view.nodes
    ]
    grid = Grid(("NODE", "STATE", "SHARE", "IDEAL", "POINTS"), rows, "The ring is empty.")
    moved = ""
    if view.changed is not None:
        ago = figures.since(view.changed, time.time())
        moved = f"its last change, {ago} ago, gave another node to {figures.part(view.moved)} of new calls"
    return Sheet([grid, *([moved] if moved else [])], answer.raw, view)


_CAPACITY = ("RESOURCE", "USED", "LIMIT", "SHARE", "FULLEST NODE", "ITS SHARE", "WITHOUT IT")


def capacity(api: ApiClient) -> Sheet:
    """A sheet of how much of each limit is used. The exit code is 1 if no node is live, or if the
    fleet could not lose its fullest node."""
    answer = api.get("capacity", CapacityView)
    view = answer.view
    grid = Grid(_CAPACITY, [_resource(found) for found in view.resources], "No live node reports how full it is.")
    return Sheet([grid, *_outlook(view)], answer.raw, view, code=int(view.survives is False or not view.nodes))


def _resource(found: ResourceView) -> list[str]:
    return [
        found.name,
        _amount(found.name, found.used),
        _amount(found.name, found.limit),
        figures.part(found.share),
        figures.cell(found.fullest),
        figures.part(found.fullest_share),
        figures.part(found.without_fullest),
    ]


def _amount(resource: str, value: float) -> str:
    if resource in ("memory", "store"):
        return figures.size(round(value))
    return f"{value:.2f} loops" if resource == "processor" else f"{value:,.0f}"


def _outlook(view: CapacityView) -> list[str]:
    """Sentences on what fills first, and on the loss of a node."""
    if view.fills_first is None:
        return []
    first = next(found for found in view.resources if found.name == view.fills_first)
    whose = f"The {first.name} of {first.fullest}" if first.fullest else "The memory of the store"
    texts = [f"{whose} fill{'' if first.name.endswith('s') else 's'} first."]
    growing = [(found.full_in, found.name) for found in view.resources if found.full_in is not None]
    if growing:
        soonest, name = min(growing)
        texts.append(f"If use goes on to grow as in the last hour, a node is out of {name} in {figures.span(soonest)}.")
    if view.survives is None:
        texts.append("There is no other node that could take over its calls.")
    elif view.survives:
        texts.append("The fleet can lose its fullest node: the others have room for what it uses.")
    else:
        short = ", ".join(
            f"{found.name} (of {found.fullest})"
            for found in view.resources
            if found.without_fullest is not None and found.without_fullest > 1
        )
        texts.append(f"The fleet can't lose a node: the others lack {short}. Add a node, or raise the limit.")
    return [" ".join(texts)]
