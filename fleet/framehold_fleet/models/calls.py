"""The models of calls. Their JSON is a contract.

The law: they hold no question, no answer, no token and no user. Of a record they hold only fields that are stored
unsealed.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from framehold_core.ending import How

from .choices import CallSort, Sort, State
from .fields import MAX_TEXT_CHARACTERS, Count, Lenient, Seconds, Text


class LeaseView(Lenient):
    """One call. Times are in seconds since 1970."""

    call_id: Text
    tool: Text
    method: Text = ""
    node_id: Text
    """The node that owns the call."""
    state: State
    phase: Text = ""
    """The phase of the call on its node, in words."""
    strategy: Text = "hold"
    reentrant: bool
    epoch: Count
    round: Count
    replayed: bool = False
    """Whether the frame was rebuilt from the journal at least once."""
    began: Seconds | None = None
    resumed: Seconds | None = None
    """When the last answers of the client came."""
    expires: Seconds | None = None
    """When the token of the call expires."""
    entries: Count | None = None
    journal_bytes: Count | None = None
    stands_at: tuple[Text, ...] = ()
    """Where its handler stands now, the innermost line first, each as `module:function:line`: lines of the author's
    code, behind the line of a library that they wait in. Only if one call was asked for by its whole id."""


class LeaseQuery(BaseModel):
    """Filters and order of a list of calls. A call is listed if every filter matches."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: State | None = None
    expiring: Annotated[float, Field(gt=0, le=86_400 * 7)] | None = None
    """Only calls whose tokens expire within this number of seconds."""
    replayed: bool | None = None
    tool: str | None = Field(None, max_length=MAX_TEXT_CHARACTERS)
    """Only calls of this tool: its name, in which `*` stands for any text."""
    node: str | None = Field(None, max_length=63)
    """Only calls of this node: its name, in which `*` stands for any text."""
    call: str | None = Field(None, max_length=64)
    """Only calls whose ids begin with this text."""
    sort: Sort = Sort.CALL
    descending: bool = False
    limit: int = Field(100, ge=1, le=1000)
    after: str | None = Field(None, max_length=400)
    """The `next` of the page before this one."""


class LeasesView(Lenient):
    """A page of calls. `total` counts all calls that match the filters; `next` is null on the last page."""

    items: list[LeaseView]
    total: Count
    next: str | None = None
    missing: tuple[Text, ...] = ()
    """Nodes that did not answer; their calls are not listed."""


class EndedCallView(Lenient):
    """A call that ended, as the node tells it on which it ended. Times are in seconds since 1970."""

    call_id: Text
    tool: Text
    node_id: Text
    outcome: Text
    """How it ended: one of `framehold_core.ending.How`."""
    error: Text = ""
    """The class of the exception that ended it; empty if none did."""
    place: Text = ""
    """Where the author's code raised that, as `module:function:line`."""
    rounds: Count
    """How many of its rounds were answered: two sets of questions and a result make three."""
    reentrant: bool
    replayed: bool = False
    """Whether its frame was rebuilt from the journal at least once."""
    began: Seconds
    ended: Seconds
    seconds: Seconds
    """From its beginning to its end, with the time in which it waited for answers."""
    trace_id: Text = ""
    """The trace of the round in which it ended, as hex digits; empty if that was not traced."""
    trace_url: str = ""
    """Where that trace is shown: the router's FRAMEHOLD_TRACE_URL with the id in its place; empty without either."""


class CallsQuery(BaseModel):
    """Filters and order of a list of ended calls. A call is listed if every filter matches."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    failed: bool | None = None
    """Only calls that failed (`framehold_core.ending.FAILED`), or only the others."""
    outcome: How | None = None
    tool: str | None = Field(None, max_length=MAX_TEXT_CHARACTERS)
    """Only calls of this tool: its name, in which `*` stands for any text."""
    node: str | None = Field(None, max_length=63)
    """Only calls that ended on this node: its name, in which `*` stands for any text."""
    call: str | None = Field(None, max_length=64)
    """Only calls whose ids begin with this text."""
    facets: bool = False
    """Whether the calls are counted by outcome, tool and node."""
    sort: CallSort = CallSort.ENDED
    descending: bool = True
    limit: int = Field(100, ge=1, le=1000)
    after: str | None = Field(None, max_length=400)
    """The `next` of the page before this one."""


class CallFacets(Lenient):
    """How many ended calls have which outcome, tool and node. Each counts the calls that match the filters of the other
    two: what would be listed if another value were chosen."""

    outcome: dict[Text, Count] = Field(default_factory=dict)
    tool: dict[Text, Count] = Field(default_factory=dict)
    node: dict[Text, Count] = Field(default_factory=dict)


class CallsView(Lenient):
    """A page of the calls that ended in the last hour. `total` counts all that match the filters; `next` is null on the
    last page. A fleet keeps the last 5,000 that failed and the last 5,000 others."""

    items: list[EndedCallView]
    total: Count
    next: str | None = None
    facets: CallFacets | None = None
    """Null unless asked for."""
    stale: bool = False
    """Whether the store did not answer: calls may be missing that ended since it last did."""


class Trail(Lenient):
    """A step of a call, from its record. `at` is in seconds since 1970 on the store's clock; `ran` is the number of
    seconds that the round had run by then. `kept_code` says of a claim that the node went on with the code that the
    call began with, while it served other code."""

    step: Text
    round: Count
    epoch: Count
    node_id: Text
    at: Seconds
    ran: Seconds = 0.0
    kept_code: bool = False


class EntryView(Lenient):
    """An entry of a journal, without its value; `bytes` is the size of the value."""

    n: Count
    kind: Text
    key: Text
    round: Count
    lane: Text
    bytes: Count


class CallView(Lenient):
    """One call, from its record in the store and from its node."""

    call_id: Text
    record: Text
    """State of the record: open, released, done or lost; `none` if there is no record, or none yet."""
    cause: Text = ""
    outcome: Text = ""
    """How it ended: one of `framehold_core.ending.How`. Empty while it is open, and where that can't be read."""
    error: Text = ""
    """The class of the exception that ended it; empty if none did."""
    place: Text = ""
    """Where the author's code raised that, as `module:function:line`."""
    trace_url: str = ""
    """Where the trace of its last round is shown; empty while it is open, and an hour after its end."""
    tool: Text
    method: Text
    strategy: Text = "hold"
    reentrant: bool
    node_id: Text
    epoch: Count
    round: Count
    attempts: Count
    """How many owners in a row have died while they ran the present round."""
    created: Seconds | None = None
    expires: Seconds | None = None
    journal: tuple[EntryView, ...] = ()
    trail: tuple[Trail, ...] = ()
    live: LeaseView | None = None
    """The call as its node lists it; null if no node holds its frame."""
    fate: Text = ""
    """What will happen to the call, in a sentence."""


class LookupQuery(BaseModel):
    """The body of a `lookup`."""

    model_config = ConfigDict(extra="forbid")

    token: str = Field(min_length=1, max_length=8 * 1024 * 1024)
    """A `requestState`, or a session id. Only the routing prefix is read."""


class LookupView(BaseModel):
    """Where the router sends a token. `kind`: `hold`, `replay`, `session` or `other`."""

    kind: Text
    call_id: Text = ""
    ring_node: Text = ""
    """The node that the ring gives for the call."""
    position: float | None = None
    """The place of the call on the ring, from 0 to 1; null if the token names no call."""
    node_id: Text = ""
    """The node to which this router would send the token now; empty if any node will do."""
    reason: Text = ""
    live: LeaseView | None = None
    """The call as that node lists it; null if the node holds no frame of it, or did not say so."""
    silent: bool = False
    """Whether that node was asked for the call and did not answer in time."""
