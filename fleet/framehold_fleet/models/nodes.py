"""The models of nodes and of the whole fleet. Their JSON is a contract."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from .events import EventView
from .fields import MAX_TEXT_CHARACTERS, Count, LeaseText, Lenient, Seconds, Share, Text
from .open_calls import OpenView, ScanView
from .problems import ProblemView
from .routers import RouterView


class FailingView(Lenient):
    """How many calls of a tool ended in the last ten minutes, and how many of them failed."""

    tool: Text
    ended: Count
    failed: Count


OF_STORE = "maxmemory"
"""The limit of the store, as `RefusedView` names it."""


class RefusedView(Lenient):
    """A limit that new calls were refused for since the start of the process."""

    limit: Text
    """The setting, as `FRAMEHOLD_MAX_PARKED`; `maxmemory` is that of the store."""
    of_one: bool = False
    """Whether it is of one user: others are served."""
    count: Count
    at: float
    """When the last one was refused, in seconds since 1970."""


class StallView(Lenient):
    """A time in which the event loop of a node stood: one piece of code kept it, and nothing else ran."""

    at: float
    """When it began, in seconds since 1970."""
    seconds: Seconds
    tool: Text | None = None
    """The tool or prompt whose code stood there; null if it was no handler's."""
    where: Text | None = None
    """The code that stood there, as `module:function:line`; null if the process was stopped, or got no processor."""
    stack: tuple[Text, ...] = ()
    """The functions above the loop, the innermost first, each as `module:function:line`."""

    @property
    def in_log(self) -> bool:
        """Whether the code that stood there was writing to a log."""
        return writes_log(self.where or "", self.stack)


def writes_log(where: str, stack: Iterable[str]) -> bool:
    """Whether a stack, the innermost place first, stands in `logging`, called from `where`."""
    inner = (where, *takewhile(lambda place: place != where, stack))
    return any(place.startswith("logging:") for place in inner)


class PauseView(Lenient):
    """A paused tool."""

    tool: Text
    at: Seconds
    """When it was paused, in seconds since 1970."""
    by: Text
    """`operator`, or `framehold` if it paused the tool by itself."""
    why: Text = ""


class LossView(Lenient):
    """A loss of what the store had acknowledged, and what this node has written again since. Times are in seconds since
    1970."""

    at: Seconds
    """When it was noticed."""
    since: Seconds
    """When the store was last seen whole."""
    emptied: bool
    """Whether it was emptied or replaced; else it went back to an older state."""
    calls: Count = 0
    """Calls whose live frames this node has written again."""
    pauses: Count = 0
    """Paused tools that this node has written again."""

    @property
    def how(self) -> str:
        """What the store did, for people."""
        return "was emptied, or replaced by another" if self.emptied else "went back to an older state"


class ToolQuery(BaseModel):
    """The body of a request that acts on one tool: the name of a tool or a prompt, or `resources/read` for all
    resources."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: str = Field(min_length=1, max_length=MAX_TEXT_CHARACTERS)


class PauseQuery(ToolQuery):
    """The body of a request to pause a tool."""

    why: str = Field("", max_length=MAX_TEXT_CHARACTERS)
    """For other operators; clients are not told."""


class KeptCodeView(Lenient):
    """The code of a re-entrant handler as the store keeps it for its calls: the digest that names it, and its size."""

    handler: Text
    digest: Text
    bytes: Count


class NotKeptView(Lenient):
    """A re-entrant handler whose code can't be kept."""

    handler: Text
    why: Text


class HandlerView(Lenient):
    """A handler that may ask, as its author marked it. Handlers that are not async have no view."""

    handler: Text
    """Its kind and name, as in `tool "book"`."""
    asks: bool
    """Whether it can be seen that it may ask: it takes the context by which handlers ask, or its author marked it."""
    reentrant: bool
    strategy: Text
    """Where its calls wait: `hold` or `replay`."""


class NodeStatus(Lenient):
    """The status of a node: its answer to `GET /admin/node`. Unknown fields are ignored."""

    node_id: Text
    incarnation: Text
    boot: Text
    state: Text
    """`live`, `draining`, `lapsed` (its node lease is not valid) or `lost` (another process has its name)."""
    pid: Count | None = None
    parked: Count | None = None
    in_flight: Count | None = None
    version: LeaseText | None = None
    frames: Count | None = None
    """Calls whose frames are in memory."""
    max_parked: Count | None = None
    """The limit on frames: FRAMEHOLD_MAX_PARKED."""
    store: Text | None = None
    """What its last heartbeat met: the store `answers`, is `full`, `refuses` (it answers with another error) or is
    `silent`; null if it has no lease to renew."""
    store_says: Text | None = None
    """The error with which the store refuses; null if it does not."""
    frame_bytes: Count | None = None
    """Bytes of one frame; null until they were measured, which needs some hundred frames and a limit on memory."""
    loop_busy: Share | None = None
    """The part of the last minute in which the event loop used a processor."""
    orphaned: Count | None = None
    """Re-entrant calls whose node is gone and that no node has taken over yet, found by the last scan. Only one node
    scans."""
    scan: ScanView | None = None
    """The last scan that has ended; null on a node that does not scan."""
    at: Seconds | None = None
    """When these figures were read, in seconds since 1970 on the store's clock."""
    kept: Count | None = None
    """Re-entrant calls that have asked and have a frame here."""
    bound: Count | None = None
    """Calls that have asked, have a frame here and end with the process."""
    asleep: Count | None = None
    """Calls without a frame (it was evicted, or its round was cancelled), which go on here when their clients come
    back."""
    lost_here: Count | None = None
    """Calls that were lost in the last hour while the process lived: their round was cancelled, and their handlers are
    not re-entrant."""
    released: Count | None = None
    """Calls that were handed off since the start of the process."""
    stuck: Count | None = None
    """Calls whose handlers killed their nodes too often, found by the last scan."""
    rounds: Count | None = None
    """Rounds that were answered since the start of the process."""
    rounds_per_second: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Rounds that were answered per second, in the last minute."""
    calls_ended: Count | None = None
    """Calls that ended since the start of the process, and failed or not."""
    calls_failed: Count | None = None
    ended: Count | None = None
    """Calls that ended in the last ten minutes, and failed or not."""
    failed: Count | None = None
    """Calls of the last ten minutes whose handlers failed: with an error result, or an error of the protocol."""
    recent_rounds: Count | None = None
    """Rounds that ended here in the last five minutes, those included whose client left."""
    recent_left: Count | None = None
    """Those of them whose client left before the reply."""
    leaving: Text | None = None
    """The tool whose rounds most clients left; null if none did."""
    failing: tuple[FailingView, ...] = ()
    """The tools that failed in the last ten minutes, the most failures first; at most 10."""
    resume_p50: Seconds | None = None
    """Seconds from a retry to its answer: the median of the last minute."""
    resume_p99: Seconds | None = None
    store_seconds: Seconds | None = None
    """Seconds that the store took for a write: the median of the last minute."""
    loop_lag_p99: Seconds | None = None
    """Seconds by which the event loop was late, in the last minute."""
    last_stall: StallView | None = None
    """The last time that the event loop stood for longer than a second; null if it never has."""
    heartbeat_age: Seconds | None = None
    """Seconds since the node lease was last renewed; null if there is no lease to renew."""
    clock_offset: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """Seconds that the wall clock of its machine lacks to the store's; negative if it is fast. Null without a store."""
    server: LeaseText | None = None
    """The name of its MCP server."""
    tools_digest: LeaseText | None = None
    """Tells one list of tools from another: equal on nodes whose tools have the same names."""
    prefix: Text | None = None
    """The path below which its app is mounted; empty at the root."""
    round_trip: Seconds | None = None
    """Seconds that its last heartbeats took at the store (the median of five; where the store was nearly too slow in
    the last minute, the highest of it); null without a store."""
    slow_heartbeats: Count | None = None
    """With how many heartbeats of the last minute it was 60 % or more of the longest."""
    longest_round_trip: Seconds | None = None
    """The longest round trip to the store with which it works, in seconds."""
    descriptors: Count | None = None
    """Descriptors (of files and sockets) that its process has open."""
    descriptors_limit: Count | None = None
    """How many it may have open: the soft limit RLIMIT_NOFILE."""
    rss: Count | None = None
    """Resident memory in bytes."""
    memory_limit: Count | None = None
    errors: Count | None = None
    """Calls that ended by a fault of the node, and requests that the store did not answer, since the start of the
    process."""
    refused: tuple[RefusedView, ...] = ()
    """The limits for which it refused new calls."""
    fenced: Count | None = None
    """Writes that the store refused because another node has the call, since the start of the process."""
    handed_off: Count | None = None
    """Calls that were handed off since the node began to drain; null if it does not drain."""
    paused: tuple[PauseView, ...] = ()
    """The paused tools that it knows, in the order of their names; at most 200."""
    store_loss: LossView | None = None
    """The last loss of the store that it knows of; null if it knows of none."""
    tools: tuple[Text, ...] = ()
    """Names of its tools, which metrics use as labels."""
    handlers: tuple[HandlerView, ...] = ()
    """The async handlers with their marks, as at the start of the process; at most 200."""
    kept_code: tuple[KeptCodeView, ...] = ()
    """The code of the re-entrant handlers that is kept for their calls, at most 100."""
    not_kept: tuple[NotKeptView, ...] | None = None
    """The re-entrant handlers whose code is not kept for their calls, at most 100; null if the node keeps no code."""

    @property
    def unheard(self) -> bool:
        """Whether it answers and has no valid lease, because the store took no heartbeat of it."""
        return self.state == "lapsed" and self.store in ("full", "refuses", "silent")

    @property
    def shown(self) -> str:
        """Its state as people are told it: `unheard` for one that lapsed since the store takes no heartbeat."""
        return "unheard" if self.unheard else self.state


class NodeView(NodeStatus):
    """One node. If it does not answer, `state` is `unreachable`, and the counts are those of its last heartbeat."""

    address: Text
    unanswered: Text | None = None
    """What this router saw when the node did not answer it; null if it did."""
    answer_status: Count | None = None
    """The HTTP status of an answer that this router can't use."""
    lives: bool = False
    """Whether a node that gave no answer is known to run: it answered with an error, or it renewed its node lease after
    the first request that failed."""
    started: float | None = None
    """Seconds since 1970."""
    share: float = 0.0
    """Its part of the ring, from 0 to 1."""


class DepartedView(BaseModel):
    """One life of a node that ended. Times are in seconds since 1970."""

    node_id: Text
    boot: Text
    how: Literal["lost", "left"]
    """`lost`: its lease ran out; `left`: it gave its lease back, or drained."""
    last_heartbeat: Seconds | None
    """Null if no router saw it go: then `detected` is when this router missed it."""
    detected: Seconds
    """When its lease was found gone."""
    calls: Count | None = None
    """Calls that were parked on the node, as its last lease says; null if that lease has no number."""
    store: Text | None = None
    """The node's last report on the store, as in `NodeStatus`; null if this router had not asked it."""


class NodesView(BaseModel):
    """All nodes in order of their names. `departed`: the nodes that departed in the last hour and have no lease now,
    the newest first, at most 100."""

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
    """The query of the ring."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    arcs: bool = False
    """Whether the arcs of the ring are listed."""


class ArcView(BaseModel):
    """A part of the ring that one node owns, from `start` up to the start of the next arc."""

    start: float
    """The place on the ring, from 0 to 1."""
    node: int
    """The index of its node in `nodes`, from 0 on."""


class RingView(BaseModel):
    """The ring; its nodes are in order of their names, and `points` is the number of points of all nodes."""

    nodes: list[RingNodeView]
    points: int
    arcs: list[ArcView] = []
    """The arcs in order, the first from 0; empty if they were not asked for, or if there are more than 4096."""
    moved: float = 0.0
    """The part of all calls that the last change of the ring gave another node, from 0 to 1."""
    moved_together: float = 0.0
    """The part that all changes within a few seconds gave another node: those of a fleet that starts, or is scaled."""
    changed: float | None = None
    """When the ring last changed, in seconds since 1970."""


class OverviewView(BaseModel):
    """The fleet at a glance. Rates and quantiles are of the last minute; null if there are no figures."""

    at: float
    version: Text
    nodes: dict[Text, int]
    """The number of nodes in each state, as people are told it: one that is `lapsed` since the store takes no heartbeat
    is `unheard`."""
    parked: int
    in_flight: int
    orphaned: int
    stuck: int
    open: OpenView = OpenView()
    """All open calls, each in one figure."""
    rounds_per_second: float | None = None
    ended: int = 0
    """Calls that ended in the last ten minutes, and failed or not."""
    failed: int = 0
    """Calls of the last ten minutes whose handlers failed."""
    failing: list[FailingView] = []
    """The tools that failed in the last ten minutes, the most failures first; at most 10."""
    routers: list[RouterView] = []
    """The routers that live, and those that were lost in the last hour."""
    resume_p50: float | None = None
    """The median of the nodes' medians."""
    resume_p99: float | None = None
    """The highest value of any node."""
    affinity: float | None = None
    """The part of retries that this router sent to the node which held the call, from 0 to 1."""
    failovers_last_hour: int
    store_seconds: float | None = None
    store: Text = "answers"
    """Whether the store `answers`, is `full`, `refuses` or is `silent`, by the worst that any process says."""
    store_used: Count | None = None
    """Bytes of memory that the fullest server of the store uses; null if it has no limit, or does not say it."""
    store_limit: Count | None = None
    events: list[EventView]
    """The last 20 events."""
    paused: list[PauseView] = []
    """The paused tools, in order of their names."""
    problems: list[ProblemView] = []
    """What needs an operator, the harm that is done now first; empty if nothing does."""
    """The texts of `problems`."""


Playground = Literal["off", "call", "kill"]
"""Whether the dashboard has a page that calls tools, and whether this page may kill the node of a call."""


class AccessView(BaseModel):
    """The access that a request has."""

    token_set: bool
    """Whether this router has an admin token or a read token."""
    token_right: bool
    """Whether the request shows the admin token, as Bearer: then it may act."""
    may_read: bool
    """Whether the request may read the API."""
    credential: Text = ""
    """How events name this token; empty if it is not right."""
    playground: Playground = "off"


class DoneView(BaseModel):
    """The result of an action, in a sentence."""

    done: Text


class ErrorView(BaseModel):
    """An error: what happened, what was not done, and what to do."""

    error: str
