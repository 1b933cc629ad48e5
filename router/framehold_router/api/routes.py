"""Every path of the API in one table: its parameters, its response, and the access that it needs.

The law: this table is the only list. The routes of the server, the access check and the OpenAPI document are made from
it, so they can't differ.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from framehold_fleet.models.calls import (
    CallsQuery,
    CallsView,
    CallView,
    LeaseQuery,
    LeasesView,
    LookupQuery,
    LookupView,
)
from framehold_fleet.models.capacity import CapacityView
from framehold_fleet.models.events import EventsView, FailoversView
from framehold_fleet.models.history import HistoryQuery, HistoryView
from framehold_fleet.models.nodes import (
    AccessView,
    DoneView,
    NodesView,
    OverviewView,
    PauseQuery,
    RingQuery,
    RingView,
    ToolQuery,
)
from framehold_fleet.models.profile import NodeDetailView
from framehold_fleet.models.tools import ToolsQuery, ToolsView, WaitingView

from .access import Need
from .sources import ApiRequest, Sources

BASE = "/api/v1/"

Answer = Callable[[Sources, ApiRequest], Awaitable[BaseModel]]


class NoQuery(BaseModel):
    """The query of a page without parameters: any parameter is an error."""

    model_config = ConfigDict(extra="forbid")


class Route(NamedTuple):
    """One path. `answers`: the name of its handler, and of its operation in OpenAPI. `listed`: whether CSV is
    available. `view`: the model of the response; None if the response is not one JSON document of a model."""

    method: str
    path: str
    answers: str
    summary: str
    view: type[BaseModel] | None
    need: Need = Need.READ
    query: type[BaseModel] = NoQuery
    body: type[BaseModel] | None = None
    listed: bool = False
    errors: tuple[int, ...] = ()
    status: int = 200


ROUTES = (
    Route("GET", "access", "access", "Whether the admin token is shown, and is right", AccessView, Need.OPEN),
    Route("GET", "overview", "overview", "The fleet at a glance", OverviewView),
    Route("GET", "nodes", "nodes", "All nodes", NodesView, listed=True),
    Route("GET", "nodes/{node_id}", "node", "One node: where its memory goes", NodeDetailView,
          errors=(404, 502)),
    Route("GET", "capacity", "capacity", "How much of each limit is used, and whether a node may be lost", CapacityView,
          listed=True),
    Route("GET", "history", "history", "Figures of the last hours, and what happened", HistoryView, query=HistoryQuery,
          errors=(404,)),
    Route("GET", "tools", "tools", "Each tool: what is parked of it, and what was counted of it lately", ToolsView,
          query=ToolsQuery, listed=True),
    Route("GET", "waiting", "waiting", "Which tokens expire when, and which users have the most calls", WaitingView),
    Route("GET", "ring", "ring", "Each node's part of the ring", RingView, query=RingQuery, listed=True),
    Route("GET", "leases", "leases", "Calls that nodes hold, and those that nobody holds", LeasesView,
          query=LeaseQuery, listed=True),
    Route("GET", "leases/{call_id}", "call", "One call", CallView, errors=(404, 503)),
    Route("GET", "calls", "calls", "Calls that ended in the last hour, and how", CallsView, query=CallsQuery,
          listed=True),
    Route("GET", "failovers", "failovers", "What came of each node's end", FailoversView, listed=True),
    Route("GET", "events", "events", "What happened lately", EventsView, listed=True),
    Route("GET", "stream", "stream", "Overview, nodes and events as they change", None, errors=(503,)),
    Route("GET", "openapi.json", "openapi", "This document", None, Need.OPEN),
    Route("POST", "lookup", "lookup", "Where a token goes", LookupView, body=LookupQuery),
    Route("POST", "nodes/{node_id}/drain", "drain", "Have a node hand off what it holds", DoneView, Need.ACTION,
          errors=(404, 409, 502), status=202),
    Route("POST", "nodes/{node_id}/undrain", "undrain", "Have a node that drains take calls again", DoneView,
          Need.ACTION, errors=(404, 409, 502)),
    Route("POST", "nodes/{node_id}/kill", "kill", "Kill the process of a node, in a playground", DoneView,
          Need.ACTION, errors=(404, 409, 502), status=202),
    Route("POST", "leases/{call_id}/cancel", "cancel", "End a call for good", DoneView, Need.ACTION,
          errors=(404, 409, 502)),
    Route("POST", "tools/pause", "pause", "Refuse new calls of a tool, and let the others wait", DoneView, Need.ACTION,
          body=PauseQuery, errors=(404, 409, 502)),
    Route("POST", "tools/resume", "resume", "End the pause of a tool", DoneView, Need.ACTION, body=ToolQuery,
          errors=(404, 409, 502)),
    Route("POST", "leases/{call_id}/evict", "evict", "Drop a call's frame; its journal stays", DoneView, Need.ACTION,
          errors=(404, 409, 502)),
)  # fmt: skip

OPEN_PAGES = ("/healthz", "/readyz", "/metrics", "/dashboard", "/dashboard/{page}", "/dashboard/assets/{path}")
"""Pages that need no token. The files of the dashboard hold no data: the browser reads the data from the API, with the
credentials of its user."""


def need_of(method: str, path: str) -> Need:
    """The access that a request needs. `path` is the pattern of the route. A route that is not listed here needs the
    admin token."""
    if path in OPEN_PAGES:
        return Need.OPEN
    wanted = "GET" if method == "HEAD" else method
    return next((route.need for route in ROUTES if (route.method, BASE + route.path) == (wanted, path)), Need.ACTION)
