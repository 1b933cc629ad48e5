"""The models of events and failovers. Their JSON is a contract."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel

from .fields import Count, Lenient, Seconds, Text


class EventKind(StrEnum):
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
    UNDRAINED = "undrained"
    PAUSED = "paused"
    RESUMED = "resumed"
    STORE_SILENT = "store_silent"
    STORE_BACK = "store_back"
    STORE_EMPTIED = "store_emptied"
    LEASE_LAPSED = "lease_lapsed"


ENDED = "end"
_OF_ROUTERS = frozenset((ENDED, EventKind.NODE_JOINED, EventKind.NODE_DRAINING))
"""With these words the ids of the events begin that routers write about nodes."""


class EventView(Lenient):
    """One event. `node_id` and `id` name it; `at` is in seconds since 1970; `call` is the prefix of a call id; `text`
    says what happened, and what follows."""

    id: Text
    at: Seconds
    node_id: Text = ""
    kind: Text
    call: Text = ""
    tool: Text = ""
    epoch: Count | None = None
    round: Count | None = None
    lost: Count = 0
    """Calls that were lost by this event with the process that held them."""
    text: Text
    count: Count = 1
    """How many events of this kind it stands for."""

    @property
    def boot(self) -> str:
        """The life of the node that it is about: a router's id is "kind-boot-incarnation", a node's "boot-number"."""
        first, *rest = self.id.split("-")
        return rest[0] if rest and first in _OF_ROUTERS else first


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
    to_boot: Text = ""
    epoch: Count
    asked: Seconds
    """When the retry came that caused the takeover; if it waited for a lease to run out, when it first came."""
    claimed: Seconds | None = None
    replayed: Seconds | None = None
    resumed: Seconds | None = None
    outcome: Literal["under way", "recovered", "lost", "stuck", "diverged", "unreadable", "failed"] = "under way"
    kept_code: bool = False
    """Whether the call went on with the code that it began with, and not with the present code of its new node."""


class EndView(Lenient):
    """The end of one life of a node: of one process with its name, as a router saw it. Times are in seconds since
    1970."""

    node_id: Text
    boot: Text
    incarnation: Text = ""
    state: Text
    """Its state, as its last lease says."""
    left: bool
    """Whether it gave its lease back, or drained; otherwise its lease ran out."""
    last_heartbeat: Seconds | None = None
    """Null if no router saw it go (`unseen_ends`)."""
    detected: Seconds
    """When its lease was found gone."""
    calls: Count | None = None
    """Calls that were parked on it, as its last lease says."""
    gone: Seconds | None = None
    """When its lease ended, on the store's clock."""
    orphaned: Count | None = None
    """Calls that it left behind and that other nodes may carry on, as its last lease says."""
    released: Count | None = None
    """Calls that it had handed off, as its last lease says."""


class LogEntry(Lenient):
    """One entry of the event log of a fleet: what one process saw."""

    event: EventView | None = None
    takeover: TakeoverView | None = None
    """It is written again when it has changed."""
    end: EndView | None = None

    def encoded(self) -> bytes:
        """The entry as it is stored."""
        return self.model_dump_json(exclude_defaults=True).encode()


class FailoverView(BaseModel):
    """What became of the calls of one node that died, or that handed its calls off. Times are those of the first of its
    calls, in seconds since 1970, null for a step that was not reached. Durations are in seconds."""

    node_id: Text
    boot: Text
    reason: Text
    planned: bool = False
    """Whether the node handed its calls off: that is no failover."""
    last_heartbeat: Seconds | None = None
    detected: Seconds | None = None
    claimed: Seconds | None = None
    replayed: Seconds | None = None
    resumed: Seconds | None = None
    durations: dict[Text, Seconds]
    """`detect`, `claim`, `replay`, `resume` and `total`, as far as they are known. `total` is counted from the last
    heartbeat; of a hand-off from the retry."""
    recovered: int = 0
    lost: int = 0
    stuck: int = 0
    failed: int = 0
    under_way: int = 0
    calls: list[TakeoverView]
    """The newest 100 calls at most, the newest first."""


class FailoversView(BaseModel):
    """The failovers and hand-offs of the last day that the event log of the fleet has, the newest first."""

    failovers: list[FailoverView]
    fenced: int
    """Writes that the store refused, summed over all live nodes."""
