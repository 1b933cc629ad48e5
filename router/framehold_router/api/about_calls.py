"""What is told of calls. The JSON of these models is a contract.

The law: no question, no answer, no token and no user is in here. Of a call it tells what the store holds unsealed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from .fields import LONGEST, Count, Lenient, Seconds, Text


class State(StrEnum):
    """Where a call is, as people ask for it."""

    PARKED = "parked"
    """Its frame waits for answers."""
    RUNNING = "running"
    """A round of it runs, or waits for the store."""
    ORPHANED = "orphaned"
    """Its node is gone, and no client has come back yet."""
    STUCK = "stuck"
    """Its handler killed its nodes too often: nobody enters it again."""


class LeaseView(Lenient):
    """One call. Times are in seconds since 1970."""

    call_id: Text
    tool: Text
    method: Text = ""
    node_id: Text
    """Its owner."""
    state: State
    phase: Text = ""
    """What its node does with it, in words."""
    strategy: Text = "hold"
    reentrant: bool
    epoch: Count
    round: Count
    replayed: bool = False
    """Whether its frame was rebuilt from its journal at least once."""
    began: Seconds | None = None
    resumed: Seconds | None = None
    """When it was last answered."""
    expires: Seconds | None = None
    """When its token does."""
    entries: Count | None = None
    journal_bytes: Count | None = None


class Sort(StrEnum):
    """In which order calls are listed, the least first; calls that are equal in it by their ids."""

    CALL = "call_id"
    BEGAN = "began"
    EXPIRES = "expires"
    JOURNAL = "journal_bytes"


class LeaseQuery(BaseModel):
    """Which calls are listed. Of several filters each must hold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: State | None = None
    expiring: Annotated[float, Field(gt=0, le=86_400 * 7)] | None = None
    """Only calls whose tokens expire within so many seconds."""
    replayed: bool | None = None
    tool: str | None = Field(None, max_length=LONGEST)
    node: str | None = Field(None, max_length=63)
    call: str | None = Field(None, max_length=64)
    """Only the calls whose ids begin so."""
    sort: Sort = Sort.CALL
    descending: bool = False
    limit: int = Field(100, ge=1, le=1000)
    after: str | None = Field(None, max_length=400)
    """The `next` of the page before."""


class LeasesView(Lenient):
    """A page of calls. `total` counts all that the filters let through; `next` is null on the last page."""

    items: list[LeaseView]
    total: Count
    next: str | None = None
    missing: tuple[Text, ...] = ()
    """Nodes that did not answer: their calls are not among these."""


class Trail(Lenient):
    """A step of a call that its record kept. `at` is in seconds since 1970 on the store's clock; `ran` for how many
    seconds the round had run by then."""

    step: Text
    round: Count
    epoch: Count
    node_id: Text
    at: Seconds
    ran: Seconds = 0.0


class EntryView(Lenient):
    """A line of a journal, without its value."""

    n: Count
    kind: Text
    key: Text
    round: Count
    lane: Text
    bytes: Count


class CallView(Lenient):
    """One call, as the store and its node know it."""

    call_id: Text
    record: Text
    """open, released, done or lost; none where nothing of it is recorded yet."""
    cause: Text = ""
    tool: Text
    method: Text
    strategy: Text = "hold"
    reentrant: bool
    node_id: Text
    epoch: Count
    round: Count
    attempts: Count
    """How often its owner died while it ran."""
    created: Seconds | None = None
    expires: Seconds | None = None
    journal: tuple[EntryView, ...] = ()
    trail: tuple[Trail, ...] = ()
    live: LeaseView | None = None
    """What its node says of it; null where no node holds its frame."""
    fate: Text = ""
    """What will become of it, in a sentence."""


class LookupQuery(BaseModel):
    """The body of a `lookup`."""

    model_config = ConfigDict(extra="forbid")

    token: str = Field(min_length=1, max_length=8 * 1024 * 1024)
    """A `requestState`, or a session id; only its routing prefix is read."""


class LookupView(BaseModel):
    """Where a token goes. `kind`: `hold`, `replay`, `session` or `other`."""

    kind: Text
    call_id: Text = ""
    ring_node: Text = ""
    """Where the ring sends it."""
    position: float | None = None
    """Where on the ring its call lies, from 0 to 1; null where it names no call."""
    node_id: Text = ""
    """Where this router would send it now; empty where any node will do."""
    reason: Text = ""
    live: LeaseView | None = None
