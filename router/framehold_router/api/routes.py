"""Every path of the API on one screen: what it wants, what it answers, and what it takes to be let in.

The law: this table is the only list. The server's routes, the check at the door and the OpenAPI document are made from
it, so none of them can lack what another has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from .about_calls import CallView, LeaseQuery, LeasesView, LookupQuery, LookupView
from .about_events import EventsView, FailoversView
from .about_nodes import AccessView, DoneView, NodesView, OverviewView, RingQuery, RingView
from .about_profile import NodeDetailView
from .about_tradeoff import TradeoffView
from .access import Need
from .sources import Asked, Sources

BASE = "/api/v1/"

Answer = Callable[[Sources, Asked], Awaitable[BaseModel]]


class NoQuery(BaseModel):
    """A page that takes no parameters: one that is given is a mistake."""

    model_config = ConfigDict(extra="forbid")


class Route(NamedTuple):
    """One path. `answers` names what answers it; `listed` whether there is CSV; `view` is None for what is not one
    JSON document of a model."""

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
    Route("GET", "nodes/{node_id}", "node", "One node: where its memory and its loop's time go", NodeDetailView,
          errors=(404, 502)),
    Route("GET", "ring", "ring", "Each node's part of the ring", RingView, query=RingQuery, listed=True),
    Route("GET", "leases", "leases", "Calls that nodes hold, and those that nobody holds", LeasesView,
          query=LeaseQuery, listed=True),
    Route("GET", "leases/{call_id}", "call", "One call", CallView, errors=(404, 503)),
    Route("GET", "failovers", "failovers", "What came of each node's end", FailoversView, listed=True),
    Route("GET", "tradeoff", "tradeoff", "What each option costs, and whom it harms, as it was measured", TradeoffView,
          listed=True, errors=(404, 503)),
    Route("GET", "events", "events", "What happened lately", EventsView, listed=True),
    Route("GET", "stream", "stream", "Overview, nodes and events as they change", None, errors=(503,)),
    Route("GET", "openapi.json", "openapi", "This document", None, Need.OPEN),
    Route("POST", "lookup", "lookup", "Where a token goes", LookupView, body=LookupQuery),
    Route("POST", "nodes/{node_id}/drain", "drain", "Have a node hand off what it holds", DoneView, Need.ACTION,
          errors=(404, 409, 502), status=202),
    Route("POST", "leases/{call_id}/cancel", "cancel", "End a call for good", DoneView, Need.ACTION,
          errors=(404, 409, 502)),
    Route("POST", "leases/{call_id}/evict", "evict", "Drop a call's frame; its journal stays", DoneView, Need.ACTION,
          errors=(404, 409, 502)),
)  # fmt: skip

OPEN_PAGES = ("/healthz", "/readyz", "/metrics", "/dashboard", "/dashboard/{page}", "/dashboard/assets/{path}")
"""The dashboard's files hold no data: what it shows it reads from these routes, in the name of who looks."""


def need_of(method: str, path: str) -> Need:
    """What a path of the server, as its route spells it, asks for: of one that nobody listed, the most."""
    if path in OPEN_PAGES:
        return Need.OPEN
    wanted = "GET" if method == "HEAD" else method
    return next((route.need for route in ROUTES if (route.method, BASE + route.path) == (wanted, path)), Need.ACTION)
