"""The one account of takeovers: when a retry found no frame here, why its call was claimed, and how that ended.

    1. a retry comes and no frame is here
    2. its record is read, and this node may claim it. If its owner's lease stands and nobody answers there, the request
       waits and begins with 1 again: its takeover counts from when it came to this node
    3. the claim is granted (CLAIMED), or it is now recorded that the call is lost, or it is stuck (ENDED)
    4. the handler was entered again and stands where it stood (REBUILT)
    5. the retry has its reply, or never will (ENDED)

Observers get each change as it happens: none looks for it in the steps of a call. A takeover that has ended holds
nothing of its call but the id: a call's journal and arguments may take megabytes. A stuck call is one takeover, however
often its client asks for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.call import Phase
from framehold_core.clock import Clock
from framehold_core.ids import CallId
from framehold_core.requests import Evidence, Verdict

from .slot import Slot
from .token_record import TokenRecord

MAX_TAKEOVERS = 4096
"""How many takeovers of calls that another process ran are remembered, and how many are followed at once."""
_MAX_LOOKUPS = 10_000
"""How many lookups under way have their start time remembered."""

Reason = Literal["died", "released", "restarted", "evicted", "carried"]
"""Why the call had no frame here: its process died; its process handed it off; its process was this node's former one;
this process had dropped the frame; or the call is carried in its token (strategy replay)."""
OF_OTHERS: Final = ("died", "released", "restarted")
"""The reasons for which another process ran the call before. The others are no failovers."""
Ending = Literal["under way", "recovered", "lost", "stuck", "diverged", "unreadable", "failed"]
CLAIMED: Final = "claimed"
REBUILT: Final = "rebuilt"
ENDED: Final = "ended"
Change = Literal["claimed", "rebuilt", "ended"]

_IDLE, _LOOKING, _CLAIMING, _PARKED = Phase.IDLE, Phase.LOOKING, Phase.CLAIMING, Phase.PARKED
_REFUSED: dict[Verdict, Ending] = {Verdict.LOST: "lost", Verdict.STUCK: "stuck"}
_OUTCOMES: dict[type[ev.Event], Ending] = {ev.Diverged: "diverged", ev.Unreadable: "unreadable", ev.Acked: "recovered"}
"""The outcome of a takeover by the event that ended its call. After `Acked` the call's outcome is written, even if its
client has left."""


@dataclass(slots=True)
class Takeover:
    """One takeover. Times are in seconds on the node's clock, which began at `clock_began` (seconds since 1970, as it
    was measured when the record was read): a store's clock that is set meanwhile moves none of them. `slot` is None
    once it has ended. `from_node` and `from_boot` name the process that ran the call, `epoch` is that of the call."""

    slot: Slot | None
    call_id: CallId
    tool: str
    reason: Reason
    from_node: str
    from_boot: str
    asked: float
    clock_began: float
    epoch: int
    claimed: float | None = None
    rebuilt: float | None = None
    resumed: float | None = None
    """When the request had its reply; None if it had none, or a refusal."""
    outcome: Ending = "under way"
    kept_code: bool = False

    def end(self, outcome: Ending) -> None:
        """Note how it ended, and let go of the call."""
        assert self.slot is not None
        self.outcome, self.kept_code = outcome, self.slot.handler.enters_kept
        self.slot = None


class Takeovers:
    """Follows the takeovers of one process. `changed` is called with each change; `clock` is the node's clock."""

    def __init__(self, clock: Clock, changed: Callable[[Slot, Takeover, Change], None]) -> None:
        self._clock, self._changed = clock, changed
        self._takeovers: deque[Takeover] = deque()
        self._asked: dict[Slot, float] = {}
        self._claims: dict[Slot, Takeover] = {}
        self.under_way: dict[Slot, Takeover] = {}
        """Those whose claims were granted, and that have not come to an end."""

    def stepped(self, slot: Slot, was: Phase, event: ev.Event, effects: Sequence[fx.Effect]) -> None:
        """Look for the next change of the takeover of this call."""
        if was is _IDLE:
            if isinstance(event, ev.Retry):
                self._looked(slot)
        elif was is _LOOKING or was is _CLAIMING:
            self._lookup_ended(slot, event, effects)
        elif self.under_way and (takeover := self.under_way.get(slot)) is not None:
            self._moved_on(slot, takeover, event, effects)

    def _looked(self, slot: Slot) -> None:
        if len(self._asked) >= _MAX_LOOKUPS:
            self._asked = {slot: at for slot, at in self._asked.items() if slot.call.phase in (_LOOKING, _CLAIMING)}
        if len(self._asked) < _MAX_LOOKUPS:
            self._asked[slot] = self._clock.now()

    def _lookup_ended(self, slot: Slot, event: ev.Event, effects: Sequence[fx.Effect]) -> None:
        """The lookup of a call's record, or a claim, has ended."""
        if isinstance(event, ev.Found):
            write = next((item for item in effects if isinstance(item, fx.Write)), None)
            if write is None or event.stored is None:
                self._undecided(slot)
            else:
                self._claims[slot] = self._found(slot, write.evidence, event)
        elif isinstance(event, ev.Claimed):
            self._claimed(slot)
        elif isinstance(event, ev.WriteRefused):
            self._claim_refused(slot, event.verdict)
        elif isinstance(event, ev.StoreDown | ev.Unreadable):
            self._undecided(slot)

    def _undecided(self, slot: Slot) -> None:
        """The lookup or claim led to nothing. The next lookup, if there is one, begins anew."""
        self._claims.pop(slot, None)
        if slot.call.phase is not _LOOKING and slot.call.phase is not _CLAIMING:
            self._asked.pop(slot, None)

    def _found(self, slot: Slot, evidence: Evidence | None, event: ev.Found) -> Takeover:
        """The record of the call was read, and is being claimed."""
        assert event.stored is not None
        record, reason = event.stored.record, _reason(slot, evidence)
        # A record that was released names no owner: its token was minted there.
        owner = slot.call.undecided[0].node if reason == "released" else record.owner
        began, looked = self._clock.at(0.0), self._asked.get(slot, self._clock.now())
        came = min((arrival.carrier.came - began for arrival in slot.arrivals.values()), default=looked)
        # By a clock that was set meanwhile, a request may seem to come after it was looked at.
        asked = min(came, looked)
        return Takeover(slot, slot.call.id, slot.tool, reason, owner, record.head.boot, asked, began, record.epoch)

    def _claimed(self, slot: Slot) -> None:
        takeover = self._claims.get(slot)
        self._undecided(slot)
        if takeover is not None:
            takeover.claimed, takeover.epoch = self._clock.now(), slot.call.epoch
            self._remember(takeover)
            if len(self.under_way) >= MAX_TAKEOVERS:
                del self.under_way[next(iter(self.under_way))]
            self.under_way[slot] = takeover
            self._changed(slot, takeover, CLAIMED)

    def _claim_refused(self, slot: Slot, verdict: Verdict) -> None:
        takeover = self._claims.get(slot)
        self._undecided(slot)
        if takeover is None or verdict not in _REFUSED:
            return
        takeover.end(_REFUSED[verdict])
        if takeover.outcome == "stuck" and any(_is_same(takeover, other) for other in self._takeovers):
            return
        self._remember(takeover)
        self._changed(slot, takeover, ENDED)

    def _moved_on(self, slot: Slot, takeover: Takeover, event: ev.Event, effects: Sequence[fx.Effect]) -> None:
        """A call that is being taken over took a step."""
        if isinstance(event, ev.Rebuilt):
            takeover.rebuilt = self._clock.now()
            self._changed(slot, takeover, REBUILT)
        if any(isinstance(item, fx.Respond) and not isinstance(item.response, fx.Refusal) for item in effects):
            takeover.resumed = self._clock.now()
            takeover.end("recovered")
        elif slot.call.phase is _IDLE or slot.call.phase is _LOOKING:
            takeover.end(_OUTCOMES.get(type(event), "failed"))
        elif isinstance(event, ev.Rebuilt) and slot.call.phase is _PARKED:
            # All requests have left, or brought malformed answers: the frame is rebuilt and waits for the next retry.
            takeover.end("recovered")
        else:
            return
        del self.under_way[slot]
        self._changed(slot, takeover, ENDED)

    def _remember(self, takeover: Takeover) -> None:
        if takeover.reason in OF_OTHERS:
            if len(self._takeovers) >= MAX_TAKEOVERS:
                self._takeovers.popleft()
            self._takeovers.append(takeover)


def _reason(slot: Slot, evidence: Evidence | None) -> Reason:
    if isinstance(slot.backing.records, TokenRecord):
        return "carried"
    if evidence is Evidence.RELEASED:
        return "released"
    if evidence is Evidence.OWNER:
        return "restarted" if slot.orphaned else "evicted"
    return "died"


def _is_same(takeover: Takeover, other: Takeover) -> bool:
    """Whether both say that the same call is stuck."""
    return other.outcome == takeover.outcome and other.call_id == takeover.call_id
