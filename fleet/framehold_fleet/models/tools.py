"""The models of tools. Their JSON is a contract. A tool here is a tool, a prompt, or `resources/read` for all
resources."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from .fields import MAX_TEXT_CHARACTERS, Count, Lenient, Seconds, Share, Text
from .nodes import PauseView


class ToolCounts(Lenient):
    """The counts of one tool: on a node since the start of its process, in a slot of the history of that time."""

    asked: Count = 0
    """Rounds that ended with questions."""
    ended: Count = 0
    """Calls that completed."""
    failed: Count = 0
    """Calls that ended with an error."""
    refused: Count = 0
    """Requests that were refused."""
    replays: Count = 0
    """Handlers that were entered again."""
    diverged: Count = 0
    """Replays that failed, because the handler did something else than before."""
    took: tuple[Count, ...] = ()
    """How many rounds took how long: counts for the bounds `telemetry.bounds.ROUND`, in seconds."""
    thought: tuple[Count, ...] = ()
    """How many answers came after how long: counts for the bounds `telemetry.bounds.PARK`, in seconds."""


class ToolState(Lenient):
    """The calls of one tool on one node now."""

    parked: Count = 0
    oldest: Seconds | None = None
    """For how many seconds its oldest parked call has been parked; null without one."""
    journal: Count = 0
    """Bytes of the journals of its parked calls."""


class ToolStatus(ToolCounts, ToolState):
    """One tool on one node."""

    tool: Text
    expiring: tuple[Count, ...] = ()
    """How many tokens of its parked calls expire in how much time: counts for the bounds `telemetry.bounds.EXPIRY`, in
    seconds."""


class ToolFigures(ToolCounts):
    """One tool in one slot of the history, on all nodes."""

    parked: Count | None = None


NO_FIGURES = ToolFigures()
"""Those of a tool in a slot in which nobody called it: samples leave them out."""


class HolderView(Lenient):
    """A user with calls on nodes. `who` is a salted hash of the user's name, the same on all nodes of a fleet."""

    who: Text
    calls: Count


class ToolsStatus(Lenient):
    """The tools of one node: its answer to `GET /admin/tools`. At most 202 tools."""

    node_id: Text
    boot: Text
    tools: tuple[ToolStatus, ...] = ()
    paused: tuple[PauseView, ...] = ()
    holders: tuple[HolderView, ...] = ()
    """The users with the most calls on this node, at most 20."""
    over_limit: Count = 0
    """New calls that were refused because their user had FRAMEHOLD_MAX_PARKED_PER_PRINCIPAL calls on this node, since
    the start of the process."""


class ToolsQuery(BaseModel):
    """The query of the tools."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: str = Field("", max_length=MAX_TEXT_CHARACTERS)
    """Only this tool; empty for all."""


class ToolView(ToolState):
    """One tool on all nodes that answered."""

    tool: Text
    rounds_per_second: float | None = None
    """Of the last minute; null without two samples."""
    ended: Count = 0
    """Calls of the last ten minutes that ended, and failed or not."""
    failed: Count = 0
    failed_share: Share | None = None
    refused: Count = 0
    """Requests of the last ten minutes that were refused."""
    replays: Count = 0
    """Handlers that were entered again in the last hour."""
    diverged: Count = 0
    """Replays of the last hour that failed."""
    p50: Seconds | None = None
    """Seconds that a request of the last ten minutes waited for its reply."""
    p99: Seconds | None = None
    think_p50: Seconds | None = None
    """Seconds that users took for their answers, in the last hour."""
    call_p50: Seconds | None = None
    """Seconds from the beginning of a call to its end, users' thinking time included, of the completed calls of the
    last hour that are listed; so `call_p99`."""
    call_p99: Seconds | None = None
    rounds: list[float | None] = Field(default_factory=list)
    """Rounds per second in each minute of the last half hour; null where nothing is known."""
    paused: PauseView | None = None


class ToolsView(BaseModel):
    """The tools in order of their names. `missing` names the nodes that did not answer."""

    tools: list[ToolView]
    missing: list[Text] = []


class ExpiringView(BaseModel):
    """How many tokens of one tool's parked calls expire in each span of `WaitingView.bounds`."""

    tool: Text
    expiring: list[int]


class WaitingView(BaseModel):
    """Who waits, and for how long. `missing` names the nodes that did not answer."""

    bounds: list[float]
    """The ends of the spans, in seconds from now; one span more follows the last one."""
    tools: list[ExpiringView]
    """The tools with parked calls, in order of their names."""
    holders: list[HolderView]
    """The users with the most calls, at most 10."""
    over_limit: int
    """The sum of the nodes' `over_limit`."""
    missing: list[Text] = []
