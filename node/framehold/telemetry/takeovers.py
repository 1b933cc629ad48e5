"""The takeovers of this process: calls that another process ran before. When their retries came, and how they ended.

    1. a retry comes and no frame is here: `looked`
    2. its record is read, and its owner is gone or has released it: `found`. If the owner's lease stands and nobody
       answers there, the request waits and begins with 1 again: its takeover counts from when it came to this node
    3. the claim is granted, or it is now recorded that the call is lost, or it is stuck: `claimed`, `refused`
    4. the handler was entered again and stands where it stood: `rebuilt`
    5. the retry has its reply, or never will: `stepped`

The law: it only remembers, and no more than the last MAX_TAKEOVERS. A takeover that has ended holds nothing of its call
but the id: a call's journal and arguments may take megabytes. A frame that this process dropped itself and
rebuilds is no takeover, nor is a round of a call that is carried in its token: no process holds such a call between two
rounds. A stuck call is one takeover, however often its client asks for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.call import Phase
from framehold_core.clock import Clock
from framehold_core.ids import CallId, prefix
from framehold_core.requests import Evidence, Verdict
from framehold_fleet.models.events import TakeoverView

from ..engine.slot import Slot
from ..engine.token_record import TokenRecord

MAX_TAKEOVERS = 500
"""How many takeovers are remembered."""
_MAX_LOOKUPS = 10_000
"""How many lookups under way have their start time remembered."""
_UNDECIDED = (Phase.LOOKING, Phase.CLAIMING)

Ending = Literal["under way", "recovered", "lost", "stuck", "diverged", "unreadable", "failed"]
_REFUSED: dict[Verdict, Ending] = {Verdict.LOST: "lost", Verdict.STUCK: "stuck"}
_OUTCOMES: dict[type[ev.Event], Ending] = {ev.Diverged: "diverged", ev.Unreadable: "unreadable", ev.Acked: "recovered"}
"""The outcome of a takeover by the event that ended its call. After `Acked` the call's outcome is written, even if its
client has left."""


@dataclass(slots=True)
class Takeover:
    """One takeover; see `TakeoverView`. Times are in seconds since 1970. `slot` is None once it has ended."""

    slot: Slot | None
    call_id: CallId
    reason: Literal["died", "released", "restarted"]
    from_node: str
    from_boot: str
    asked: float
    epoch: int
    claimed: float | None = None
    replayed: float | None = None
    resumed: float | None = None
    outcome: Ending = "under way"
    tool: str = ""
    kept_code: bool = False

    def end(self, outcome: Ending) -> None:
        """Note how it ended, and let go of the call."""
        assert self.slot is not None
        self.outcome, self.kept_code = outcome, self.slot.handler.enters_kept
        self.slot = None

    def view(self, to_node: str, to_boot: str) -> TakeoverView:
        """The takeover as the API shows it; `to_node` and `to_boot` are this process."""
        return TakeoverView(
            call=prefix(self.call_id),
            tool=self.tool,
            reason=self.reason,
            from_node=self.from_node,
            from_boot=self.from_boot,
            to_node=to_node,
            to_boot=to_boot,
            epoch=self.epoch,
            asked=self.asked,
            claimed=self.claimed,
            replayed=self.replayed,
            resumed=self.resumed,
            outcome=self.outcome,
            kept_code=self.kept_code if self.slot is None else self.slot.handler.enters_kept,
        )


class Takeovers:
    """The takeovers of one process. `changed` is called with each takeover that is new or has changed. `clock` is the
    node's clock."""

    def __init__(self, changed: Callable[[Takeover], None], clock: Clock) -> None:
        self._changed, self._clock = changed, clock
        self._takeovers: deque[Takeover] = deque()
        self._asked: dict[Slot, float] = {}
        self._claims: dict[Slot, Takeover] = {}
        self.under_way: dict[Slot, Takeover] = {}
        """Those that have not come to an end."""

    def looked(self, slot: Slot) -> None:
        """A retry came, and nothing of its call is here."""
        if len(self._asked) >= _MAX_LOOKUPS:
            self._asked = {slot: at for slot, at in self._asked.items() if slot.call.phase in _UNDECIDED}
        if len(self._asked) < _MAX_LOOKUPS:
            self._asked[slot] = self._clock.time()

    def found(self, slot: Slot, event: ev.Found, effects: Sequence[fx.Effect]) -> None:
        """The record of the call was read."""
        write = next((item for item in effects if isinstance(item, fx.Write)), None)
        if write is None or event.stored is None or isinstance(slot.backing.records, TokenRecord):
            self.undecided(slot)
            return
        record, released = event.stored.record, write.evidence is Evidence.RELEASED
        if not (released or slot.orphaned):
            return
        reason: Literal["released", "restarted"] = "released" if released else "restarted"
        # A record that was released names no owner: its token was minted there.
        owner = slot.call.undecided[0].node if released else record.owner
        looked = self._asked.get(slot, self._clock.time())
        self._claims[slot] = Takeover(
            slot,
            slot.call.id,
            reason if released or write.evidence is Evidence.OWNER else "died",
            owner,
            record.head.boot,
            min((arrival.carrier.came for arrival in slot.arrivals.values()), default=looked),
            record.epoch,
        )

    def undecided(self, slot: Slot) -> None:
        """The lookup or claim led to nothing. The next lookup, if there is one, begins anew."""
        self._claims.pop(slot, None)
        if slot.call.phase not in _UNDECIDED:
            self._asked.pop(slot, None)

    def claimed(self, slot: Slot) -> Takeover | None:
        """The claim was granted. Returns the takeover; None if no other process had the call."""
        takeover = self._claims.get(slot)
        self.undecided(slot)
        if takeover is not None:
            takeover.claimed, takeover.epoch = self._clock.time(), slot.call.epoch
            self._remember(takeover, slot)
            self.under_way[slot] = takeover
        return takeover

    def refused(self, slot: Slot, verdict: Verdict) -> Takeover | None:
        """The claim was refused. Returns the takeover if that ends it, else None; also None if it is remembered that
        the call is stuck."""
        takeover = self._claims.get(slot)
        self.undecided(slot)
        if takeover is None or verdict not in _REFUSED:
            return None
        takeover.end(_REFUSED[verdict])
        if takeover.outcome == "stuck" and any(_is_same(takeover, other) for other in self._takeovers):
            return None
        self._remember(takeover, slot)
        return takeover

    def stepped(self, slot: Slot, event: ev.Event, effects: Sequence[fx.Effect]) -> Takeover | None:
        """A call that is being taken over took a step. Returns the takeover if it has ended, else None."""
        takeover = self.under_way[slot]
        if isinstance(event, ev.Rebuilt):
            takeover.replayed = self._clock.time()
            self._changed(takeover)
        if any(isinstance(item, fx.Respond) and not isinstance(item.response, fx.Refusal) for item in effects):
            takeover.resumed = self._clock.time()
            takeover.end("recovered")
        elif slot.call.phase in (Phase.IDLE, Phase.LOOKING):
            takeover.end(_OUTCOMES.get(type(event), "failed"))
        elif isinstance(event, ev.Rebuilt) and slot.call.phase is Phase.PARKED:
            # All requests have left, or brought malformed answers: the frame is rebuilt and waits for the next retry.
            takeover.end("recovered")
        else:
            return None
        del self.under_way[slot]
        self._changed(takeover)
        return takeover

    def _remember(self, takeover: Takeover, slot: Slot) -> None:
        takeover.tool = slot.tool
        if len(self._takeovers) >= MAX_TAKEOVERS and (oldest := self._takeovers.popleft().slot) is not None:
            self.under_way.pop(oldest, None)
        self._takeovers.append(takeover)
        self._changed(takeover)


def _is_same(takeover: Takeover, other: Takeover) -> bool:
    """Whether both say that the same call is stuck."""
    return other.outcome == takeover.outcome and other.call_id == takeover.call_id
