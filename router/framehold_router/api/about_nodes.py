"""What is told of nodes and of the fleet as a whole. The JSON of these models is a contract."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from .about_events import EventView
from .fields import Count, Lenient, Seconds, Text


class Said(Lenient):
    """A node's answer to `GET /admin/node`; more fields than these are passed over."""

    node_id: Text
    incarnation: Text
    boot: Text
    state: Text
    pid: Count | None = None
    parked: Count | None = None
    in_flight: Count | None = None
    version: Text | None = None
    frames: Count | None = None
    """Calls whose frames are in memory."""
    orphaned: Count | None = None
    """Calls whose node is gone and that nobody carries on yet, as the last walk of the one node that looks found."""
    stuck: Count | None = None
    """Calls whose handlers killed their nodes too often, likewise."""
    rounds: Count | None = None
    """Rounds that were answered since the process began."""
    resume_p50: Seconds | None = None
    """Seconds from a retry to its answer: the median of the last minute."""
    resume_p99: Seconds | None = None
    store_seconds: Seconds | None = None
    """Seconds that the store took for a write: the median of the last minute."""
    loop_lag_p99: Seconds | None = None
    """Seconds by which the event loop was late, in the last minute."""
    heartbeat_age: Seconds | None = None
    """Seconds since the node lease was last renewed; null where there is none to renew."""
    rss: Count | None = None
    """Bytes in memory."""
    memory_limit: Count | None = None
    errors: Count | None = None
    """Calls that ended by a fault of the node's since the process began, and requests that the store did not answer."""
    handed_off: Count | None = None
    """Calls that were handed off, while it drains."""
    tools: tuple[Text, ...] = ()
    """Names that metrics may be told by."""


class NodeView(Said):
    """One node. Where it does not answer `state` is `unreachable`, and the counts are its last heartbeat's."""

    address: Text
    started: float | None = None
    """Seconds since 1970."""
    share: float = 0.0
    """Its part of the ring, from 0 to 1."""


class DepartedView(BaseModel):
    """One life of a node that this router saw end. Times are in seconds since 1970."""

    node_id: Text
    boot: Text
    how: Literal["lost", "left"]
    """`lost`: its lease ran out; `left`: it gave it back, or drained."""
    last_heartbeat: Seconds
    detected: Seconds
    """When its lease was found gone."""
    calls: Count | None = None
    """Calls that were parked there, by its last lease; null where that did not say."""


class NodesView(BaseModel):
    """All nodes in order of their names; and those that departed in the last hour and have no lease now, the newest
    first, at most 100."""

    nodes: list[NodeView]
    departed: list[DepartedView] = []


class RingNodeView(BaseModel):
    """One node's part of the ring; a node that takes no new calls has none."""

    node_id: Text
    state: Text
    ideal_share: float
    share: float
    points: int


class RingQuery(BaseModel):
    """What is told of the ring."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    arcs: bool = False
    """Whether its arcs are."""


class ArcView(BaseModel):
    """A part of the ring that one node has, up to the next one's start."""

    start: float
    """From 0 to 1."""
    node: int
    """Which of `nodes`, from 0 on."""


class RingView(BaseModel):
    """The ring, nodes in order of their names; `points` is the sum of theirs."""

    nodes: list[RingNodeView]
    points: int
    arcs: list[ArcView] = []
    """In order, the first from 0; empty where nobody asked, or where there are more than 4096."""
    moved: float = 0.0
    """The part of all calls that the last change of the ring gave another node, from 0 to 1."""
    changed: float | None = None
    """When that was, in seconds since 1970."""


class OverviewView(BaseModel):
    """The fleet at a glance. Rates and quantiles are of the last minute; null where nothing says."""

    at: float
    version: Text
    nodes: dict[Text, int]
    """How many are in each state."""
    parked: int
    in_flight: int
    orphaned: int
    stuck: int
    rounds_per_second: float | None = None
    resume_p50: float | None = None
    """The median of the nodes' medians."""
    resume_p99: float | None = None
    """The worst node's."""
    affinity: float | None = None
    """The part of retries that this router sent to the node which held the call, from 0 to 1."""
    failovers_last_hour: int
    store_seconds: float | None = None
    events: list[EventView]
    """The last 20."""
    attention: list[str] = []
    """What needs somebody, each in a sentence; empty where nobody is needed."""


class AccessView(BaseModel):
    """What a request may do here."""

    token_set: bool
    """Whether this router has an admin token: without one everybody reads and nobody acts."""
    token_right: bool
    """Whether the request shows it, as Bearer."""


class DoneView(BaseModel):
    """What an action did, in a sentence."""

    done: Text


class ErrorView(BaseModel):
    """Why there is no other answer: what happened, what was not done, what to do."""

    error: str
