"""The table of calls on this node: who holds how many, which are due, and in which order their frames could go."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator

from framehold_core import events as ev
from framehold_core.call import Phase, at_rest
from framehold_core.errors import LimitExceeded
from framehold_core.ids import CallId

from .config import Settings
from .slots import Slot

_PARKED = Phase.PARKED
"""Looked up once: each step asks for it, and an enum's member costs more than all the rest of what is asked."""


class Table:
    """Calls by id, and those that are kept nowhere by request. A call without a frame is here only while a retry of it
    is being decided."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._slots: dict[str, Slot] = {}
        self._held: Counter[str] = Counter()
        self._resting: OrderedDict[Slot, None] = OrderedDict()
        self.frames = 0
        """How many calls have a frame here."""

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Slot]:
        return iter(tuple(self._slots.values()))

    def get(self, call: CallId) -> Slot | None:
        """The call's slot, if it is here."""
        return self._slots.get(call)

    def admit(self, principal: str | None) -> None:
        """Raises LimitExceeded where this principal has as many calls as it may; nothing was started."""
        limit = self._settings.max_parked_per_principal
        if principal is not None and self._held[principal] >= limit:
            raise LimitExceeded(
                f"you have {limit} calls on this node, the limit for one user "
                "(FRAMEHOLD_MAX_PARKED_PER_PRINCIPAL); nothing was started; finish one first",
                limit="MAX_PARKED_PER_PRINCIPAL",
            )

    def add(self, slot: Slot) -> Slot:
        """Put a call in."""
        self._slots[slot.place] = slot
        if slot.entrance.principal is not None:
            self._held[slot.entrance.principal] += 1
        return slot

    def remove(self, slot: Slot) -> bool:
        """Take a call out; False where it went before."""
        if self._slots.get(slot.place) is not slot:
            return False
        del self._slots[slot.place]
        self._resting.pop(slot, None)
        principal = slot.entrance.principal
        if principal is not None:
            self._held[principal] -= 1
            if self._held[principal] <= 0:
                del self._held[principal]
        return True

    def stepped(self, slot: Slot, was: Phase) -> None:
        """A call that was in phase `was` has taken a step. The longest at rest stands first among those that are."""
        call = slot.call
        if call.phase is _PARKED and slot.frame is not None and at_rest(call):
            if was is _PARKED:
                self._resting.pop(slot, None)
            self._resting[slot] = None
        elif was is _PARKED:
            self._resting.pop(slot, None)

    def rested(self) -> Slot | None:
        """Take the call out of its place that rests the longest of those whose frames may be dropped."""
        return self._resting.popitem(last=False)[0] if self._resting else None

    @property
    def rests(self) -> bool:
        """Whether there is one whose frame may be dropped."""
        return bool(self._resting)

    def load(self) -> tuple[int, int]:
        """How many calls are parked, and how many run or wait for the store."""
        parked = sum(slot.call.phase is Phase.PARKED for slot in self._slots.values())
        return parked, len(self._slots) - parked

    def due(self, now: float) -> Iterator[tuple[Slot, ev.Event]]:
        """What is due at `now`. A plain pass: 20,000 calls take about a millisecond, and no call carries a timer."""
        for slot in self:
            phase = slot.call.phase
            if phase is Phase.RUNNING and now >= slot.due:
                yield slot, ev.Overran()
            elif (
                phase is Phase.REBUILDING
                and now >= slot.due
                and slot.frame is not None
                and slot.frame.replay is not None
            ):
                overdue = slot.frame.replay.cursor.overdue(self._settings.max_round)
                yield slot, ev.Diverged(str(overdue))
            elif phase in (Phase.PARKED, Phase.STRANDED) and now >= slot.call.expires:
                yield slot, ev.Expired()
