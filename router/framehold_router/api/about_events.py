"""What is told of events and failovers. The JSON of these models is a contract."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, Field

from .fields import Count, Lenient, Seconds, Text


class Kind(StrEnum):
    """What happened."""

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
    STORE_SILENT = "store_silent"
    STORE_BACK = "store_back"
    LEASE_LAPSED = "lease_lapsed"


class EventView(Lenient):
    """One thing that happened. `id` grows with time where it happened; `at` is in seconds since 1970; `call` a call's
    prefix; `text` says it, and what follows."""

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
    """One call that was carried on by another process. Times in seconds since 1970, null where it has not come to it.
    `reason`: `died` (its node is gone), `released` (handed off), `restarted` (its node's next life)."""

    call: Text
    """Its prefix."""
    tool: Text
    reason: Text
    from_node: Text
    from_boot: Text = ""
    to_node: Text
    epoch: Count
    asked: Seconds
    """When the retry came that brought it about."""
    claimed: Seconds | None = None
    replayed: Seconds | None = None
    resumed: Seconds | None = None
    outcome: Literal["under way", "recovered", "lost", "stuck", "diverged", "unreadable", "failed"] = "under way"


class EventsQuery(Lenient):
    """What a node is asked for by `GET /admin/events`; a router of a newer release may ask for more."""

    after: int = Field(0, ge=0, le=2**53)
    """The `seq` of an answer: what came after it is wanted."""


class Happened(Lenient):
    """A node's answer to `GET /admin/events`: what it remembers and came `after`, the newest last. Takeovers come again
    when they have changed."""

    node_id: Text
    boot: Text
    events: tuple[EventView, ...] = ()
    takeovers: tuple[TakeoverView, ...] = ()
    fenced: Count = 0
    """Writes of this process that the store refused since it began."""
    seq: Count = 0
    """The number of the last thing that came, in this `boot`; 0 where nothing did, or where a node of an older release
    tells all that it remembers each time."""


class FailoverView(BaseModel):
    """What came of one node's death or drain: times of the first of its calls in seconds since 1970, durations in
    seconds, null where it has not come to it."""

    node_id: Text
    boot: Text
    reason: Text
    last_heartbeat: Seconds | None = None
    detected: Seconds | None = None
    claimed: Seconds | None = None
    replayed: Seconds | None = None
    resumed: Seconds | None = None
    durations: dict[Text, Seconds]
    """`detect`, `claim`, `replay`, `resume` and `total`, as far as it has come."""
    recovered: int = 0
    lost: int = 0
    stuck: int = 0
    failed: int = 0
    under_way: int = 0
    calls: list[TakeoverView]
    """At most 100 of them, the newest first."""


class FailoversView(BaseModel):
    """Failovers that the nodes and this router remember, the newest first."""

    failovers: list[FailoverView]
    fenced: int
    """Writes that the store refused, of all nodes that live."""
