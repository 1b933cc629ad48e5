"""The calls that this process carried on for another one: when their retries came, and what came of them.

    1. a retry comes and no frame is here: `looked`
    2. its record is read, and its owner is gone or has released it: `found`
    3. the claim is granted, or it is now recorded that the call is lost, or it is stuck: `claimed`, `refused`
    4. the handler was entered again and stands where it stood: `rebuilt`
    5. the retry has its reply, or never will: `stepped`

The law: it only remembers, and not more than the last KEPT. A frame that this process dropped itself and builds again
was taken from nobody. Each change has a number, so that who was told before is told what changed since.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.call import Phase
from framehold_core.ids import prefix
from framehold_core.requests import Evidence, Verdict
from framehold_router.api.about_events import TakeoverView

from .slots import Slot

KEPT = 500
"""Takeovers that are remembered."""
_LOOKING = 10_000
"""Retries that are looked up at a time and whose time is known."""
_UNDECIDED = (Phase.LOOKING, Phase.CLAIMING)

Ending = Literal["under way", "recovered", "lost", "stuck", "diverged", "unreadable", "failed"]
_REFUSED: dict[Verdict, Ending] = {Verdict.LOST: "lost", Verdict.STUCK: "stuck"}
_STRAYED: dict[type[ev.Event], Ending] = {ev.Diverged: "diverged", ev.Unreadable: "unreadable", ev.Acked: "recovered"}
"""What an event that ends a call says of its takeover: after `Acked` its outcome is written, whoever heard it."""


@dataclass(slots=True)
class Takeover:
    """One of them; see `TakeoverView`."""

    slot: Slot
    reason: Literal["died", "released", "restarted"]
    from_node: str
    from_boot: str
    asked: float
    epoch: int
    claimed: float | None = None
    replayed: float | None = None
    resumed: float | None = None
    outcome: Ending = "under way"
    call: str = ""
    tool: str = ""
    changed: int = 0
    """The number of its last change."""

    def view(self, to_node: str) -> TakeoverView:
        """As it is told."""
        return TakeoverView(
            call=self.call,
            tool=self.tool,
            reason=self.reason,
            from_node=self.from_node,
            from_boot=self.from_boot,
            to_node=to_node,
            epoch=self.epoch,
            asked=self.asked,
            claimed=self.claimed,
            replayed=self.replayed,
            resumed=self.resumed,
            outcome=self.outcome,
        )


class Takeovers:
    """What one process remembers of them. `number` gives each change a greater number than all before have."""

    def __init__(self, number: Callable[[], int]) -> None:
        self._number = number
        self._kept: deque[Takeover] = deque()
        self._asked: dict[Slot, float] = {}
        self._claims: dict[Slot, Takeover] = {}
        self.under_way: dict[Slot, Takeover] = {}
        """Those that have not come to an end."""

    def views(self, to_node: str, after: int = 0) -> tuple[TakeoverView, ...]:
        """Those that changed after the change of this number, the newest last."""
        return tuple(item.view(to_node) for item in self._kept if item.changed > after)

    def looked(self, slot: Slot) -> None:
        """A retry came, and nothing of its call is here."""
        if len(self._asked) >= _LOOKING:
            self._asked = {slot: at for slot, at in self._asked.items() if slot.call.phase in _UNDECIDED}
        if len(self._asked) < _LOOKING:
            self._asked[slot] = time.time()

    def found(self, slot: Slot, event: ev.Found, effects: Sequence[fx.Effect]) -> None:
        """Its record was read."""
        write = next((item for item in effects if isinstance(item, fx.Write)), None)
        if write is None or event.stored is None:
            self.undecided(slot)
            return
        record, released = event.stored.record, write.evidence is Evidence.RELEASED
        if not (released or slot.orphaned):
            return
        reason: Literal["released", "restarted"] = "released" if released else "restarted"
        # A record that was released names no owner: its token was minted there.
        owner = slot.call.held[0].node if released else record.owner
        self._claims[slot] = Takeover(
            slot,
            reason if released or write.evidence is Evidence.OWNER else "died",
            owner,
            record.head.boot,
            self._asked.get(slot, time.time()),
            record.epoch,
        )

    def undecided(self, slot: Slot) -> None:
        """Whatever was begun came to nothing: the next look, if there is one, begins anew."""
        self._claims.pop(slot, None)
        if slot.call.phase not in _UNDECIDED:
            self._asked.pop(slot, None)

    def claimed(self, slot: Slot) -> Takeover | None:
        """The call is this node's now; None where nobody else had it."""
        takeover = self._claims.get(slot)
        self.undecided(slot)
        if takeover is not None:
            takeover.claimed, takeover.epoch = time.time(), slot.call.epoch
            self._keep(takeover)
            self.under_way[slot] = takeover
        return takeover

    def refused(self, slot: Slot, verdict: Verdict) -> Takeover | None:
        """The claim was refused; None where that ends nothing."""
        takeover = self._claims.get(slot)
        self.undecided(slot)
        if takeover is None or verdict not in _REFUSED:
            return None
        takeover.outcome = _REFUSED[verdict]
        self._keep(takeover)
        return takeover

    def stepped(self, slot: Slot, event: ev.Event, effects: Sequence[fx.Effect]) -> Takeover | None:
        """A call that is taken over took a step; the takeover, where it has come to its end."""
        takeover = self.under_way[slot]
        if isinstance(event, ev.Rebuilt):
            takeover.replayed, takeover.changed = time.time(), self._number()
        if any(isinstance(item, fx.Reply) and not isinstance(item.answer, fx.Refusal) for item in effects):
            takeover.outcome, takeover.resumed = "recovered", time.time()
        elif slot.call.phase in (Phase.IDLE, Phase.LOOKING):
            takeover.outcome = _STRAYED.get(type(event), "failed")
        elif isinstance(event, ev.Rebuilt) and slot.call.phase is Phase.PARKED:
            # Whoever waited has left, or brought what is no answer: the frame stands, and comes to no end meanwhile.
            takeover.outcome = "recovered"
        else:
            return None
        takeover.changed = self._number()
        del self.under_way[slot]
        return takeover

    def _keep(self, takeover: Takeover) -> None:
        slot = takeover.slot
        takeover.call, takeover.tool, takeover.changed = prefix(slot.call.id), slot.tool, self._number()
        if len(self._kept) >= KEPT:
            self.under_way.pop(self._kept.popleft().slot, None)
        self._kept.append(takeover)
