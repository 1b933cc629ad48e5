"""A call's place on a node: the machine's state, and what the machine needn't know."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core import lease, writes
from framehold_core.call import Call, Phase
from framehold_core.errors import DivergenceError, LimitExceeded
from framehold_core.ids import CallId, NodeId
from framehold_core.journal import Draft, Entry
from framehold_core.lease import NodeRecord
from framehold_core.requests import Head, Record, Reply, Request
from framehold_store.base import Done

from . import clock
from .asks import Carrier
from .chance import Chance
from .entrance import Entrance
from .frames import Frame
from .heartbeat import Alone, Heartbeat
from .payloads import Payloads

_PLAIN = 128
"""About how many bytes an entry has beside its value."""


Questions = tuple[tuple[str, dict[str, Any]], ...]
"""Questions as the client gets them, each with its key: a third smaller than a mapping of few."""


class Parked(NamedTuple):
    """A reply that asks: the questions by key, and what its token must name. `state` is set where the token must hold
    the whole call; `lifetime` (seconds) where the handler says how long its token is valid."""

    questions: dict[str, dict[str, Any]]
    call: CallId
    at: fx.Questions
    state: str = ""
    lifetime: float = 0.0


class Ended(NamedTuple):
    """A reply that ends the call: the outcome as the handler's side of the SDK made it."""

    outcome: object


class Elsewhere(NamedTuple):
    """No reply: another node holds the call. `address` is where it is reached, empty where nobody knows."""

    node: NodeId
    address: str


Answer = Parked | Ended | Elsewhere | fx.Refusal


class Records(Protocol):
    """Where a call's record is: a part of `framehold_store.base.Store`."""

    def submit(self, request: Request, done: Done) -> None: ...
    async def run(self, request: Request) -> Reply: ...
    async def nodes(self) -> tuple[NodeRecord, ...]: ...


class Home(NamedTuple):
    """What a call stands on: where its record is, the lease that its writes present, where its recorded values come
    from, and whether its frame is dropped after each round."""

    records: Records
    beat: Heartbeat | Alone
    chance: Chance
    drops: bool = False


@dataclass(slots=True)
class Arrival:
    """A request that waits for its reply. `raw` are its answers as they came, `parsed` as their asks parsed them; it
    came at `came`, on the node's clock."""

    carrier: Carrier
    future: asyncio.Future[Answer]
    parsed: dict[str, Any] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict)
    came: float = field(default_factory=clock.now)


_NOBODY: dict[int, Arrival] = {}
"""Who waits where nobody does: one for all slots, and nobody is put in."""


class Holder(Protocol):
    """Who steps a slot's call and tends its frame."""

    payloads: Payloads
    max_journal: int

    def feed(self, slot: Slot, event: ev.Event) -> None:
        """Step one event, and whatever follows from it."""

    def bury(self, frame: Frame) -> None:
        """Silence a frame and see its handler to its end."""

    def shield(self, effect: Coroutine[Any, Any, None], context: contextvars.Context) -> asyncio.Task[None]:
        """Run something that nobody's leaving cuts off."""

    def rebuilt(self, slot: Slot) -> None:
        """The slot's frame stands where its journal ends."""

    def ended(self, slot: Slot, frame: Frame, outcome: object) -> None:
        """The handler of a frame of this slot's has ended."""


class Slot:
    """One call on this node. `due` is when its running round has run too long, in seconds on the node's clock; `code`
    the digest of the handler that its record was written by; `size` how many bytes its journal has in the store, and
    `unwritten` about how many are to follow. `began` is in seconds since 1970; `replayed` tells whether its frame was
    rebuilt here."""

    __slots__ = (
        "_holder",
        "arrivals",
        "asking",
        "began",
        "call",
        "code",
        "due",
        "entrance",
        "frame",
        "head",
        "heir",
        "home",
        "log",
        "orphaned",
        "packed",
        "place",
        "questions",
        "replayed",
        "shown",
        "size",
        "unwritten",
    )

    def __init__(self, call: Call, entrance: Entrance, holder: Holder, home: Home, place: str = "") -> None:
        self.call, self.entrance, self._holder, self.home = call, entrance, holder, home
        self.place = place or call.id
        """Under which name the table has it."""
        self.frame: Frame | None = None
        self.arrivals = _NOBODY
        self.log: tuple[bytes, ...] = ()
        self.size = self.unwritten = 0
        self.code = ""
        self.packed: tuple[fx.Write, writes.Packed] | None = None
        self.asking: Questions = ()
        self.questions: Questions = ()
        self.shown: tuple[Draft | Entry, ...] = ()
        """The questions that the client was shown since answers were last delivered."""
        self.head: Head | None = None
        self.due = 0.0
        self.began, self.replayed = time.time(), False
        self.heir: NodeId | None = None
        """The node that carries the call on, where this one drains and nobody holds it."""
        self.orphaned = False
        """Whether the process that ran this call before is gone."""

    @property
    def tool(self) -> str:
        """The handler's name, for the log."""
        return self.entrance.tool

    def claimed(self, record: Record) -> None:
        """The call is carried on from its record."""
        self.log, self.size, self.code, self.replayed = (), 0, record.head.code, True
        # A store that only this process has counts on this process's clock.
        alone = isinstance(self.home.beat, Alone)
        self.began = clock.wall(record.created) if alone else record.created

    def learn(self, entries: tuple[bytes, ...]) -> None:
        """The store has these entries."""
        self.log += entries
        self.size += sum(map(len, entries))
        self.unwritten = 0

    def comes(self, waiter: int, arrival: Arrival) -> None:
        """A request waits for its reply."""
        if not self.arrivals:
            self.arrivals = {}
        self.arrivals[waiter] = arrival

    def goes(self, waiter: int) -> Arrival | None:
        """The request that waits no longer; None where it went before."""
        arrival = self.arrivals.pop(waiter, None)
        if not self.arrivals:
            # A mapping keeps the room that it once had.
            self.arrivals = _NOBODY
        return arrival

    # ---- what its frame needs

    @property
    def call_id(self) -> CallId:
        """The call's name."""
        return self.call.id

    @property
    def payloads(self) -> Payloads:
        """Seals and opens what its entries hold."""
        return self._holder.payloads

    @property
    def chance(self) -> Chance:
        """Where its recorded values come from."""
        return self.home.chance

    @property
    def drops(self) -> bool:
        """Whether its frame goes after each round."""
        return self.home.drops

    def phase(self) -> Phase:
        """Where the call is in its life."""
        return self.call.phase

    def may_run(self) -> bool:
        """Whether an effect may run, or a reply leave, without the store: inside the window of the lease that this
        frame runs under (rule 6)."""
        held = self.home.beat.lease
        return held.inc == self.call.inc and lease.is_open(held, clock.now())

    def admit(self, what: str) -> None:
        """Raises LimitExceeded where the journal is as long as it may be."""
        limit = self._holder.max_journal
        if (size := self.size + self.unwritten) >= limit:
            raise LimitExceeded(
                f"{what} is one too many: this call's journal has {size} bytes, its limit is {limit} "
                "(FRAMEHOLD_MAX_JOURNAL); nothing was asked or run; keep large results elsewhere and their names here",
                limit="MAX_JOURNAL",
            )

    def shield(self, effect: Coroutine[Any, Any, None], context: contextvars.Context) -> asyncio.Task[None]:
        """Run an effect that nobody's leaving cuts off."""
        return self._holder.shield(effect, context)

    def noted(self, drafts: tuple[Draft, ...]) -> None:
        """The handler learned something without asking."""
        self.unwritten += sum(len(draft.value) + _PLAIN for draft in drafts)
        self._holder.feed(self, ev.Noted(drafts))

    def asked(self, asks: tuple[Draft, ...]) -> None:
        """The handler waits for answers."""
        self._holder.feed(self, ev.Asked(asks))

    def intended(self, key: str, draft: Draft) -> None:
        """`once` wants to run an effect."""
        self._holder.feed(self, ev.Intended(key, draft))

    def resulted(self, key: str, draft: Draft) -> None:
        """The effect has run."""
        self._holder.feed(self, ev.Resulted(key, draft))

    def rebuilt(self) -> None:
        """The frame stands where its journal ends."""
        self._holder.rebuilt(self)

    def strayed(self, error: Exception) -> None:
        """The frame can't be rebuilt."""
        why = str(error)
        self._holder.feed(self, ev.Diverged(why) if isinstance(error, DivergenceError) else ev.Unreadable(why))

    def refused(self, outcome: object) -> None:
        """The handler asked what this client can't be asked: the call ends with `outcome`, the handler is cancelled."""
        frame = self.frame
        if frame is not None:
            self._holder.feed(self, ev.Finished(outcome, "refused"))
            self._holder.bury(frame)

    def ended(self, frame: Frame, outcome: object) -> None:
        """The handler of this frame has ended."""
        self._holder.ended(self, frame, outcome)

    def carry_on(self) -> None:
        """The request that carried the round is gone: the next one that waits for it takes over."""
        waiting = (self.arrivals.get(item.waiter) for item in self.call.waiting)
        arrival = next((item for item in waiting if item is not None), None)
        if self.frame is not None:
            self.frame.carrier = None if arrival is None else arrival.carrier
