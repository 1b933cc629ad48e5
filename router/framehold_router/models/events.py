"""The models of events and failovers. Their JSON is a contract."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, Field

from .fields import Count, Lenient, Seconds, Text


class Kind(StrEnum):
    """The kind of an event."""

    NODE_JOINED = "node_joined"
    NODE_DRAINING = "node_draining"
    NODE_LEFT = "node_left"
    NODE_LOST = "node_lost"
    TAKEOVER = "takeover"
    RECOVERED = "recovered"
    LOST = "lost"
    STUCK = "stuck"
    DIVERGED = "diverged"
    FENCED = "fenced"
    EVICTED = "evicted"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    DRAIN = "drain"
    PAUSED = "paused"
    RESUMED = "resumed"
    STORE_SILENT = "store_silent"
    STORE_BACK = "store_back"
    LEASE_LAPSED = "lease_lapsed"


class EventView(Lenient):
    """One event. `id` grows with time within the process that had the event; `at` is in seconds since 1970; `call` is
    the prefix of a call id; `text` says what happened, and what follows."""

    id: Text
    at: Seconds
    node_id: Text = ""
    kind: Text
    call: Text = ""
    tool: Text = ""
    epoch: Count | None = None
    round: Count | None = None
    text: Text


class EventsView(Lenient):
    """The latest events, the newest first."""

    events: list[EventView]


class TakeoverView(Lenient):
    """One call that another process took over. Times are in seconds since 1970, null for a step that was not reached.
    `reason`: `died` (its node is gone), `released` (handed off), `restarted` (the next process of its node took it)."""

    call: Text
    """The prefix of the call id."""
    tool: Text
    reason: Text
    from_node: Text
    from_boot: Text = ""
    to_node: Text
    epoch: Count
    asked: Seconds
    """When the retry came that caused the takeover."""
    claimed: Seconds | None = None
    replayed: Seconds | None = None
    resumed: Seconds | None = None
    outcome: Literal["under way", "recovered", "lost", "stuck", "diverged", "unreadable", "failed"] = "under way"


class EventsQuery(Lenient):
    """The query of `GET /admin/events` of a node. Unknown parameters, which a router of a newer release may send, are
    ignored."""

    after: int = Field(0, ge=0, le=2**53)
    """The `seq` of an earlier answer: only entries after it are wanted."""


class Happened(Lenient):
    """A node's answer to `GET /admin/events`: the events and takeovers that it remembers after `after`, the newest
    last. A takeover is sent again when it has changed."""

    node_id: Text
    boot: Text
    events: tuple[EventView, ...] = ()
    takeovers: tuple[TakeoverView, ...] = ()
    fenced: Count = 0
    """Writes of this process that the store has refused since its start."""
    seq: Count = 0
    """The number of the last entry of this `boot`; 0 if there is none. A node of an older release always sends 0, and
    all that it remembers."""


class FailoverView(BaseModel):
    """The failover of one node that died or drained. Times are those of the first of its calls, in seconds since 1970,
    null for a step that was not reached. Durations are in seconds."""

    node_id: Text
    boot: Text
    reason: Text
    last_heartbeat: Seconds | None = None
    detected: Seconds | None = None
    claimed: Seconds | None = None
    replayed: Seconds | None = None
    resumed: Seconds | None = None
    durations: dict[Text, Seconds]
    """`detect`, `claim`, `replay`, `resume` and `total`, as far as they are known."""
    recovered: int = 0
    lost: int = 0
    stuck: int = 0
    failed: int = 0
    under_way: int = 0
    calls: list[TakeoverView]
    """The newest 100 calls at most, the newest first."""


class FailoversView(BaseModel):
    """Failovers that the nodes and this router remember, the newest first."""

    failovers: list[FailoverView]
    fenced: int
    """Writes that the store refused, summed over all live nodes."""
