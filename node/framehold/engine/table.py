"""The table of calls on this node: how many each user has, which are due, and in which order their frames may be
evicted."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.call import Phase, may_be_dropped
from framehold_core.clock import Clock
from framehold_core.ending import LOST
from framehold_core.errors import LimitExceeded
from framehold_core.ids import CallId
from framehold_core.room import Journals

from ..config import Settings
from .slot import Slot

_PARKED = Phase.PARKED
"""Looked up once: each step compares with it, and an attribute of an enum is slow."""

_HOUR = 3600.0
_EXPIRING = (Phase.PARKED, Phase.STRANDED, Phase.RELEASING)
"""The phases in which a call may be forgotten when its last token expires."""


_NOT_STARTED = "this tool may ask or run an effect, which needs more; nothing was started"


def _no_room(journals: Journals, principal: str | None, consequence: str) -> LimitExceeded:
    return LimitExceeded(
        f"your calls on this node have {journals.held(principal)} bytes in the store, the limit for one user is "
        f"{journals.limit} (FRAMEHOLD_MAX_JOURNAL_PER_PRINCIPAL); {consequence}; end some of them by short answers",
        limit="MAX_JOURNAL_PER_PRINCIPAL",
    )


class CallTable:
    """The calls of a node by `Slot.place`: calls whose record is in the store by id, calls that are carried in tokens
    by id and request. A call without a frame is here only while a retry of it is decided. `clock` is the node's
    clock."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._slots: dict[str, Slot] = {}
        self._per_principal: Counter[str] = Counter()
        self._weights: Counter[str] = Counter()
        """Bytes that the requests of each principal's calls take at most, in memory."""
        self._evictable: OrderedDict[Slot, None] = OrderedDict()
        self.journals = Journals(settings.journals_of_one)
        """What the journals of each user have in the store."""
        self.over_limit = 0
        """How many new calls were refused because their principal had as many calls as it may."""
        self.met: dict[tuple[str, bool], tuple[int, float]] = {}
        """For each limit that new calls were refused for, by its setting and whether it is of one principal: how many,
        and when the last one was, in seconds since 1970."""
        self.frames = 0
        """How many calls have a frame here."""
        self._asleep: dict[CallId, float] = {}
        """The calls without a frame whose record names this node and can be carried on, each with the end of its last
        token."""
        self._lost: deque[float] = deque()
        """When calls were lost here within the last hour, in seconds on the node's clock."""

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Slot]:
        return iter(tuple(self._slots.values()))

    def get(self, call: CallId) -> Slot | None:
        """The call's slot, if it is here."""
        return self._slots.get(call)

    def admit(self, principal: str | None, weight: int, share: float) -> None:
        """Raise LimitExceeded if this principal has as many calls as it may, or its calls would take more than `share`
        bytes with one more of `weight` bytes; nothing was started."""
        limit = self._settings.max_parked_per_principal
        if principal is None:
            return
        if self._per_principal[principal] >= limit:
            self.over_limit += 1
            self.refused("FRAMEHOLD_MAX_PARKED_PER_PRINCIPAL", of_one=True)
            raise LimitExceeded(
                f"you have {limit} calls on this node, the limit for one user "
                "(FRAMEHOLD_MAX_PARKED_PER_PRINCIPAL); nothing was started; finish one first",
                limit="MAX_PARKED_PER_PRINCIPAL",
            )
        if weight and self._weights[principal] and self._weights[principal] + weight > share:
            self.over_limit += 1
            self.refused("FRAMEHOLD_MEMORY_LIMIT", of_one=True)
            raise LimitExceeded(
                "the arguments of your calls take as much memory of this node as those of one user may (a quarter of "
                "what FRAMEHOLD_MEMORY_LIMIT leaves for calls); nothing was started; finish a call first",
                limit="MEMORY_LIMIT",
            )

    def has_room_for(self, principal: str, weight: int, share: float) -> bool:
        """Whether `admit` and `full_for` have nothing against a new call."""
        if weight and self._weights[principal] and self._weights[principal] + weight > share:
            return False
        is_below = self._per_principal[principal] < self._settings.max_parked_per_principal
        return is_below and self.journals.may_begin(principal)

    def refused(self, limit: str, of_one: bool = False) -> None:
        """Note that a new call is refused for a limit, named by its setting; `of_one`: for what one principal may
        have."""
        count, _ = self.met.get((limit, of_one), (0, 0.0))
        self.met[limit, of_one] = count + 1, self._clock.time()

    def full_for(self, principal: str | None) -> str | None:
        """Why this principal may have no more calls that need the store; None if it may."""
        if self.journals.may_begin(principal):
            return None
        self.journals.forget_expired(self._clock.now())
        return None if self.journals.may_begin(principal) else str(_no_room(self.journals, principal, _NOT_STARTED))

    def admit_answers(self, principal: str | None, size: int) -> None:
        """Raise LimitExceeded if the journals of this principal have no room for `size` bytes more; nothing was
        taken."""
        if principal is None or self.journals.may_answer(principal, size):
            return
        self.journals.forget_expired(self._clock.now())
        if not self.journals.may_answer(principal, size):
            raise _no_room(self.journals, principal, "no answer was taken, and the call waits")

    def admit_entry(self, principal: str, what: str) -> None:
        """Raise LimitExceeded if the journals of this principal have twice as much as they may, so that a call can't
        record `what`."""
        if not self.journals.may_go_on(principal):
            raise _no_room(self.journals, principal, f"{what} was not asked or run")

    def holders(self, count: int) -> list[tuple[str, int]]:
        """The principals with the most calls, and how many calls each has; at most `count`."""
        return self._per_principal.most_common(count)

    def add(self, slot: Slot) -> Slot:
        """Add a call and return it."""
        self._slots[slot.place] = slot
        if slot.handler.principal is not None:
            self._per_principal[slot.handler.principal] += 1
            if slot.weight:
                self._weights[slot.handler.principal] += slot.weight
        return slot

    def remove(self, slot: Slot) -> bool:
        """Remove a call; False if it was removed before."""
        if self._slots.get(slot.place) is not slot:
            return False
        del self._slots[slot.place]
        self._evictable.pop(slot, None)
        principal = slot.handler.principal
        if principal is not None:
            self._per_principal[principal] -= 1
            if slot.weight:
                self._weights[principal] -= slot.weight
            if self._per_principal[principal] <= 0:
                del self._per_principal[principal], self._weights[principal]
        return True

    def stepped(self, slot: Slot, was: Phase) -> None:
        """A call that was in phase `was` has taken a step. Update the order of the calls whose frames may be evicted:
        the one that has been parked the longest is first."""
        call = slot.call
        if call.phase is _PARKED and slot.frame is not None and may_be_dropped(call):
            if was is _PARKED:
                self._evictable.pop(slot, None)
            self._evictable[slot] = None
        elif was is _PARKED:
            self._evictable.pop(slot, None)

    def pop_oldest_evictable(self) -> Slot | None:
        """Remove and return the call that has been parked the longest, of those whose frames may be evicted; None if
        there is none."""
        return self._evictable.popitem(last=False)[0] if self._evictable else None

    @property
    def has_evictable(self) -> bool:
        """Whether there is a call whose frame may be evicted."""
        return bool(self._evictable)

    def left_open(self, slot: Slot, left: fx.Forget) -> None:
        """A call lost its frame here, and its record stays open. What is carried in tokens leaves no record."""
        if left.ending == LOST:
            self._lost.append(self._clock.now())
        elif slot.place == slot.call.id:
            self._asleep[slot.call.id] = left.open_until

    def woke(self, slot: Slot) -> None:
        """A call has a frame here."""
        self._asleep.pop(slot.call.id, None)

    def asleep(self) -> int:
        """The number of calls that have no frame, go on here with their next retry, and whose tokens are valid."""
        now = self._clock.now()
        self._asleep = {call: until for call, until in self._asleep.items() if until > now}
        return len(self._asleep)

    def lost_last_hour(self) -> int:
        """The number of calls that were lost in the last hour while this process lived: their round was cancelled, and
        their handlers may not be entered again."""
        while self._lost and self._lost[0] < self._clock.now() - _HOUR:
            self._lost.popleft()
        return len(self._lost)

    def stakes(self) -> tuple[int, int]:
        """Two counts of calls that have asked and have a frame here: of re-entrant ones, and of those that end with the
        process. Calls that are carried in their tokens are in neither."""
        stored = [
            slot for slot in self._slots.values() if slot.frame and slot.call.round and slot.place == slot.call.id
        ]
        kept = sum(slot.call.reentrant for slot in stored)
        return kept, len(stored) - kept

    def load(self) -> tuple[int, int]:
        """Two counts: of parked calls, and of calls that run or wait for the store."""
        parked = sum(slot.call.phase is Phase.PARKED for slot in self._slots.values())
        return parked, len(self._slots) - parked

    def load_by_tool(self) -> tuple[Counter[str], int]:
        """The parked calls by tool, and the number of calls that run or wait for the store."""
        parked = Counter(slot.tool for slot in self._slots.values() if slot.call.phase is _PARKED)
        return parked, len(self._slots) - parked.total()

    def due(self, now: float) -> Iterator[tuple[Slot, ev.Event]]:
        """The calls that are due at `now` (seconds on the node's clock), each with its event. All calls are checked:
        20,000 take about a millisecond, and no call needs a timer."""
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
                yield slot, ev.Diverged(f"{overdue}{slot.stands()}")
            elif phase in _EXPIRING and now >= slot.call.expires:
                yield slot, ev.Expired()
