"""One call on this node: core's state of it, and what the engine keeps beside this state."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core import lease, writes
from framehold_core.call import Call, Phase
from framehold_core.clock import Clock
from framehold_core.ending import Ending
from framehold_core.errors import StoreUnavailable
from framehold_core.ids import prefix
from framehold_core.journal import Draft, Entry, EntryKind
from framehold_core.requests import Head, Record, Reply, Verdict
from framehold_store.base import Store

from ..code import lines
from ..frame import span
from ..frame.entropy import Entropy
from ..frame.frame import Frame
from ..frame.ports import RoundCarrier
from .heartbeat import Alone, Heartbeat
from .ports import HandlerEntry
from .replies import Answer, Questions
from .token_record import TokenRecord


class Backing(NamedTuple):
    """Where a call is stored. `records` has its record, `beat` is the lease that its writes present, `entropy` the
    source of its recorded values. `drops` says whether its frame is dropped after each round."""

    records: Store | TokenRecord
    beat: Heartbeat | Alone
    entropy: Entropy
    drops: bool = False


@dataclass(slots=True)
class Arrival:
    """A request that waits for its reply. `handler` is its own entry into the handler; None if a frame has used it, and
    for a first request, whose entry is the slot's. `raw` are its answers as they came, by key; `parsed` are the answers
    that their questions have parsed, by key; None: not yet. The runtime sets `came`, its time of arrival in seconds on
    the node's clock, and `event`, what it is to core.

    The last five are what its round did, if no other request waits for that round: for how many seconds the call was
    parked, the write of the round and the seconds that it took, the bytes of the journal once the round was parked, and
    the rounds of the call and how it ended, once it has ended."""

    carrier: RoundCarrier
    handler: HandlerEntry | None = None
    parsed: dict[str, Any] | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)
    future: asyncio.Future[Answer] = field(default_factory=asyncio.Future)
    came: float = 0.0
    event: ev.Start | ev.Retry | None = None
    parked: float | None = None
    written: tuple[fx.Op, float] | None = None
    size: int | None = None
    rounds: int | None = None
    ending: Ending | None = None


_PARKED, _PARKING = Phase.PARKED, Phase.PARKING
_ENTRY_BYTES = 128
"""Estimated bytes of a journal entry without its value."""
_COUNTED = (EntryKind.VALUE, EntryKind.RESULT, EntryKind.EFFECT)
"""The entries that are counted before they are written: what a handler has learned, and what no limit keeps out."""
_NOBODY: dict[int, Arrival] = {}
"""The arrivals of a slot for which no request waits. All slots share it; nothing is ever put in."""


class Slot:
    """One call on this node.

    `due` is when its running round has run too long, in seconds on the node's clock. `began` is when the call began, in
    seconds since 1970. `head` is that of its record, once one was written or claimed. `log` has the encoded entries of
    its journal that the store has, `size` is how many bytes they have, and `unwritten` about how many bytes the effects
    and values will have that the store does not have yet. `packed` is the write in flight with its encoded entries.
    `questions` are the questions of its present round, `unwritten_questions` those of the round that is being written.
    `replayed` says whether its frame was rebuilt here."""

    __slots__ = (
        "arrivals",
        "backing",
        "began",
        "call",
        "due",
        "frame",
        "handler",
        "head",
        "is_entered",
        "log",
        "looked_up",
        "orphaned",
        "packed",
        "place",
        "questions",
        "replayed",
        "shown_questions",
        "size",
        "stopping",
        "unwritten",
        "unwritten_questions",
        "weight",
    )

    def __init__(self, call: Call, handler: HandlerEntry, backing: Backing, place: str = "") -> None:
        self.call, self.handler, self.backing = call, handler, backing
        self.place = place or call.id
        """The key of this slot in the table."""
        self.weight = handler.weight
        """Bytes that the request of `handler` takes in memory at most, while the call is here."""
        self.frame: Frame | None = None
        self.arrivals = _NOBODY
        self.log: tuple[bytes, ...] = ()
        self.size = self.unwritten = 0
        self.packed: tuple[fx.Write, writes.Packed] | None = None
        self.unwritten_questions: Questions = ()
        self.questions: Questions = ()
        self.shown_questions: tuple[Draft | Entry, ...] = ()
        """The questions that the client was shown since answers were last delivered."""
        self.head: Head | None = None
        self.due = 0.0
        self.began, self.replayed = self.clock.time(), False
        self.is_entered = False
        """Whether a frame has used `handler`. A request enters its handler once."""
        self.looked_up = False
        """Whether the record of this call was looked up here, so that the gate knows of it."""
        self.orphaned = False
        """Whether the process that ran this call before is gone."""
        self.stopping: asyncio.Future[ev.Event] | None = None
        """Where an operator stops the call: gets the event that ends it here. See `Runtime.stop`."""

    @property
    def clock(self) -> Clock:
        """The clock of the node."""
        return self.backing.beat.clock

    @property
    def tool(self) -> str:
        """The handler's name, for logs and metrics."""
        return self.handler.tool

    @property
    def log_fields(self) -> dict[str, Any]:
        """The `extra` of log lines about this call: its tool, its node, its epoch, the round that runs or waits for
        answers, and the span of the request that carries it. Of a call whose record this node has not read, the round,
        the epoch and the node are not known.

        The call is named by the beginning of its id. No log line holds a token, a user, a question or an answer."""
        call = self.call
        at: dict[str, Any] = {}
        if (round_ := self._logged_round) > 0 or self.frame is not None:
            at = {"round": round_, "epoch": call.epoch, "node": call.owner}
        return {"call": prefix(call.id), "tool": self.tool, **at, **self._span_ids()}

    @property
    def _logged_round(self) -> int:
        call = self.call
        if self.frame is not None:
            return self.frame.round
        return call.undecided[0].round + 1 if call.undecided else call.round

    def _span_ids(self) -> dict[str, str]:
        """The ids of the span of the request that carries the round, or of the first one that waits; empty if there is
        none, or if it is not traced."""
        carrier = None if self.frame is None else self.frame.carrier
        if carrier is None:
            carrier = next((arrival.carrier for arrival in self.arrivals.values()), None)
        # A copy: no context can be entered twice, and a thread of the handler may write a line at the same time.
        return {} if carrier is None else carrier.variables.copy().run(span.ids)

    def load_record(self, record: Record) -> None:
        """Begin again from the record of a claimed call; `add_entries` with its journal comes next."""
        self.log, self.size, self.unwritten, self.head, self.replayed = (), 0, 0, record.head, True
        self.began = record.created

    def add_entries(self, entries: tuple[bytes, ...], drafts: tuple[Draft, ...] = ()) -> None:
        """Append journal entries that the store has now, and what `drafts` are no more to be written."""
        self.log += entries
        self.size += sum(map(len, entries))
        if self.unwritten:
            self.unwritten -= size_of(drafts)

    def add_arrival(self, waiter: int, arrival: Arrival) -> None:
        """Keep a request that waits for its reply."""
        if not self.arrivals:
            self.arrivals = {}
        self.arrivals[waiter] = arrival

    def pop_arrival(self, waiter: int) -> Arrival | None:
        """Remove and return a request that no longer waits; None if it was removed before."""
        arrival = self.arrivals.pop(waiter, None)
        if not self.arrivals:
            # An empty dict keeps the memory of its former items.
            self.arrivals = _NOBODY
        return arrival

    @property
    def _only(self) -> Arrival | None:
        """The one request that waits here; None if there are more or fewer, or the record was looked up: then more is
        to be told of the call than what its round did."""
        if self.looked_up or len(self.arrivals) != 1:
            return None
        (arrival,) = self.arrivals.values()
        return arrival

    def notes_step(self, was: Phase, event: ev.Event, last: fx.Effect) -> bool:
        """Note with the one request that waits what a step of its round tells; whether there is such a request. `last`
        is the last effect of the step."""
        arrival, call = self._only, self.call
        if arrival is None:
            return False
        if was is _PARKED:
            arrival.parked = self.clock.now() - (call.expires - call.ttl)
        elif was is _PARKING:
            arrival.size = self.size
        elif type(event) is ev.Acked:
            arrival.rounds = call.round + 1
            arrival.ending = last.ending if type(last) is fx.Forget else None
        else:
            return False
        return True

    def notes_write(self, op: fx.Op, reply: Reply | StoreUnavailable, seconds: float) -> bool:
        """Note with the one request that waits that the write of its round was applied; whether there is such a
        request, and it was."""
        arrival = self._only
        if arrival is None or arrival.written is not None:
            return False
        if isinstance(reply, StoreUnavailable) or reply.verdict is not Verdict.OK:
            return False
        arrival.written = op, seconds
        return True

    def enter(self) -> HandlerEntry:
        """Use the entry into the handler: no other frame may. Returns it."""
        self.is_entered = True
        for arrival in self.arrivals.values():
            if arrival.handler is self.handler:
                arrival.handler = None
        return self.handler

    def renew_handler(self) -> None:
        """Replace an entry that a frame has used by that of a request which waits, if one has its own still."""
        if self.is_entered:
            waiting = (arrival.handler for arrival in self.arrivals.values())
            unused = next((handler for handler in waiting if handler is not None), None)
            if unused is not None:
                self.handler, self.is_entered = unused, False

    def may_run(self) -> bool:
        """Whether an effect may run, or a reply be sent, without asking the store: the window of the lease that this
        frame runs under is open (docs/protocol.md, rule 6)."""
        held = self.backing.beat.lease
        return held.incarnation == self.call.incarnation and lease.is_open(held, self.backing.beat.clock.now())

    def stands(self) -> str:
        """Where the handler is in the author's code, as the end of a message: the line that runs in this thread, the
        line at which the handler waits, or its definition; empty if none is known."""
        if (running := lines.running_frame()) is not None:
            return f"; the handler is at {lines.shown(running)}"
        waiting = lines.waiting_frame(None if self.frame is None else self.frame.task)
        if waiting is not None:
            return f"; the handler waits at {lines.shown(waiting)}"
        return f"; the handler is defined at {defined}" if (defined := self.handler.definition) else ""

    def next_carrier(self) -> None:
        """The request that carried the round is gone: the next request that waits for the round carries it."""
        waiting = (self.arrivals.get(item.waiter) for item in self.call.waiting)
        arrival = next((item for item in waiting if item is not None), None)
        if self.frame is not None:
            self.frame.carrier = None if arrival is None else arrival.carrier


def size_of(drafts: Iterable[Draft]) -> int:
    """About how many bytes the effects and values among these entries will have."""
    return sum(len(draft.value) + _ENTRY_BYTES for draft in drafts if draft.kind in _COUNTED)
