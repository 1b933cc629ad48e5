"""The sources of the API's answers, the parsed request, and the refusal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from types import MappingProxyType
from typing import NamedTuple

from pydantic import BaseModel

from framehold_core.ids import NodeId
from framehold_core.writes import MAX_ATTEMPTS
from framehold_fleet.members.membership import Fleet
from framehold_fleet.members.ring import Change
from framehold_fleet.members.store_health import StoreHealth
from framehold_fleet.models.nodes import ErrorView, LossView, Playground
from framehold_fleet.models.routers import RouterView
from framehold_fleet.telemetry.descriptors import Descriptors, SpentDescriptors
from framehold_store.base import Store

from ..collect.ended_calls import EndedCalls
from ..collect.fleet_log import FleetLog
from ..collect.history import History
from ..collect.identities import Identities
from ..collect.node_client import NodeClient
from ..collect.survey import Survey
from ..collect.tool_survey import ToolSurvey
from ..routing.placement import Placement
from ..routing.request_facts import Facts
from ..telemetry.counters import Meter

VERSION = metadata.version("framehold")


@dataclass(frozen=True)
class Sources:
    """The parts of a router that its API reads. `place` gives the placement that a request would get now, and changes
    nothing. `loss` gives the last loss of the store that this router knows of. `refused_hosts` gives
    the nodes that refuse the Host of requests. `retries` is the meter that counts
    retries, None without metrics. `change` gives the last change of the ring. `history` is None if none is kept.
    `max_attempts` is how many processes may end
    in one round of a call before it is stuck. `credential` names the admin token in events. `trace_url` is where a
    trace is shown, with `{trace_id}` for its id; empty if that is not known. `playground` is the setting of that name.
    `routers` gives the routers of the fleet. `clock` gives seconds since 1970."""

    fleet: Callable[[], Fleet]
    store: Store
    node_client: NodeClient
    survey: Survey
    tools: ToolSurvey
    log: FleetLog
    ended: EndedCalls
    store_health: StoreHealth
    identities: Identities
    descriptors: SpentDescriptors = field(default_factory=lambda: SpentDescriptors(Descriptors))
    routers: Callable[[], Sequence[RouterView]] = lambda: ()
    loss: Callable[[], LossView | None] = lambda: None
    refused_hosts: Callable[[], Mapping[NodeId, int]] = dict
    place: Callable[[Facts], Placement | None] = lambda facts: None
    retries: Meter | None = None
    change: Callable[[], Change | None] = lambda: None
    history: History | None = None
    credential: str = ""
    trace_url: str = ""
    playground: Playground = "off"
    max_attempts: int = MAX_ATTEMPTS
    clock: Callable[[], float] = time.time


class ApiRequest(NamedTuple):
    """A valid request for a page of the API: the variables of its path, its query and body as parsed by their models,
    and its headers."""

    path: Mapping[str, str]
    query: BaseModel | None = None
    body: BaseModel | None = None
    headers: Mapping[str, str] = MappingProxyType({})


class RequestDenied(Exception):
    """The request is answered with an error: an HTTP status, and a text that says what happened, what was not done and
    what to do."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.view = ErrorView(error=text)
