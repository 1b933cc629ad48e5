"""A call's place on a node: the machine's state, and what the machine needn't know."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core import writes
from framehold_core.call import Call, Phase
from framehold_core.ids import CallId, NodeId
from framehold_core.journal import Draft

from .frames import Carrier, Frame


class Parked(NamedTuple):
    """A reply that asks: the questions by key, and what its token must name."""

    questions: dict[str, dict[str, Any]]
    call: CallId
    at: fx.Questions


class Ended(NamedTuple):
    """A reply that ends the call: the outcome as the handler's side of the SDK made it."""

    outcome: object


class Elsewhere(NamedTuple):
    """No reply: another node holds the call. `address` is where it is reached, empty where nobody knows."""

    node: NodeId
    address: str


Answer = Parked | Ended | Elsewhere | fx.Refusal


class Entrance(Protocol):
    """How a handler is entered, and what its record says of it. `prefilled` are answers that came with round 1."""

    prefilled: dict[str, Any]
    principal: str | None
    reentrant: bool

    async def enter(self, frame: Frame) -> object:
        """Run the handler in `frame`; its outcome, whatever happens. Only a frame that is dead raises
        CancelledError."""

    def describe(self) -> dict[str, str]:
        """tool, code, method, target, and the digests args and principal: what the record says."""

    def dump(self, outcome: object) -> bytes:
        """An outcome for its tombstone."""

    def load(self, data: bytes) -> object:
        """An outcome from its tombstone."""


@dataclass(slots=True)
class Arrival:
    """A request that waits for its reply. `parsed` holds its answers as their asks parsed them."""

    carrier: Carrier
    future: asyncio.Future[Answer]
    parsed: dict[str, Any]


class Holder(Protocol):
    """Who steps a slot's call and buries its frame."""

    def feed(self, slot: Slot, event: ev.Event) -> None:
        """Step one event, and whatever follows from it."""

    def bury(self, frame: Frame) -> None:
        """Silence a frame and see its handler to its end."""


class Slot:
    """One call on this node. `due` is when its running round has run too long, in seconds on the node's clock."""

    __slots__ = (
        "_holder",
        "arrivals",
        "asking",
        "call",
        "due",
        "entrance",
        "frame",
        "log",
        "packed",
        "questions",
        "shown",
        "terms",
    )

    def __init__(self, call: Call, entrance: Entrance, holder: Holder) -> None:
        self.call, self.entrance, self._holder = call, entrance, holder
        self.frame: Frame | None = None
        self.arrivals: dict[int, Arrival] = {}
        self.log: list[bytes] = []
        self.packed: tuple[fx.Write, writes.Packed] | None = None
        self.asking: dict[str, dict[str, Any]] = {}
        self.questions: dict[str, dict[str, Any]] = {}
        self.shown: dict[str, str] = {}
        """The digests of the questions that the client was shown since answers were last delivered."""
        self.terms: writes.Terms | None = None
        self.due = 0.0

    def phase(self) -> Phase:
        """Where the call is in its life."""
        return self.call.phase

    def noted(self, drafts: tuple[Draft, ...]) -> None:
        """The handler learned something without asking."""
        self._holder.feed(self, ev.Noted(drafts))

    def asked(self, asks: tuple[Draft, ...]) -> None:
        """The handler waits for answers."""
        self._holder.feed(self, ev.Asked(asks))

    def refused(self, outcome: object) -> None:
        """The handler asked what this client can't be asked: the call ends with `outcome`, the handler is cancelled."""
        frame = self.frame
        if frame is not None:
            self._holder.feed(self, ev.Finished(outcome, "refused"))
            self._holder.bury(frame)

    def carry_on(self) -> None:
        """The request that carried the round is gone: the next one that waits for it takes over."""
        waiting = (self.arrivals.get(item.waiter) for item in self.call.waiting)
        arrival = next((item for item in waiting if item is not None), None)
        if self.frame is not None:
            self.frame.carrier = None if arrival is None else arrival.carrier
