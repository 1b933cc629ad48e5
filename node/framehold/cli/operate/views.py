"""`framehold nodes` and `framehold ring`: the nodes of a router, and their shares of new calls."""

from __future__ import annotations

import time

from framehold_router.models.nodes import NodesView, NodeView, OverviewView, RingView

from ..client.api import Api
from ..show import figures
from ..show.sheet import Grid, Sheet
from .problems import problems_of, shown

_NODES = (
    *("NODE", "STATE", "PARKED", "IN FLIGHT", "RESUME P99", "LAG P99", "MEMORY", "HEARTBEAT", "UP", "PID", "VERSION"),
    "ADDRESS",
)


def nodes(api: Api) -> Sheet:
    """A sheet of the nodes that the router knows, with their problems below. Its JSON is the list of nodes."""
    answer, now = api.get("nodes", NodesView), time.time()
    of_nodes = [problem for problem in problems_of(api.get("overview", OverviewView)) if problem.node]
    found = answer.view.nodes
    grid = Grid(_NODES, [_node(one, now) for one in found], "There is no node.")
    return Sheet([grid, *([shown(of_nodes)] if of_nodes else [])], answer.raw["nodes"], answer.view)


def _node(one: NodeView, now: float) -> list[str]:
    memory = figures.size(one.rss)
    if one.rss is not None and one.memory_limit:
        memory += f" ({one.rss / one.memory_limit:.0%})"
    return [
        one.node_id,
        one.state,
        figures.cell(one.parked),
        figures.cell(one.in_flight),
        figures.quick(one.resume_p99),
        figures.quick(one.loop_lag_p99),
        memory,
        figures.quick(one.heartbeat_age),
        figures.since(one.started, now),
        figures.cell(one.pid),
        figures.cell(one.version),
        figures.cell(one.address),
    ]


def ring(api: Api) -> Sheet:
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
