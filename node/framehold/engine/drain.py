"""How a node leaves its fleet: which calls it hands off, and which it waits for.

    1. its lease says `draining`: routers take it off their rings; a request that still comes for a new call, or for a
       call that was handed off, is passed on to another node
    2. parked calls of re-entrant handlers are released, a portion at a time, and so is each such call that parks later:
       its next retry goes on elsewhere without waiting for a lease to run out; what the store has lost of such a call
       is written again first (docs/protocol.md, rule 7); a store that does not answer is asked again until the deadline
    3. running rounds, and parked calls that only this process can carry on, have until the deadline
    4. requests that wait at the deadline are refused, and frames are dropped
    5. what was passed on has until the deadline, because its responses go through this process
    6. the lease is given back

A drain that an operator ordered may be taken back until the process leaves: the node takes calls again. What it has
released by then is carried on by the node that gets the next retry, this one or another.

The law: a drain waits for answers of people, and for a store, until its deadline and no longer. No call is released
while its handler runs (docs/protocol.md, rule 8).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core import lease
from framehold_core.call import Phase, may_be_dropped
from framehold_core.effects import Op
from framehold_core.ids import CallId, NodeId, prefix
from framehold_fleet.members.membership import DRAINING, LIVE
from framehold_fleet.members.ring import fresh_call
from framehold_fleet.models.events import EventKind
from framehold_fleet.models.fields import printable

from ..frame.rehearsal import rehearsal_observer
from .heartbeat import Alone, Heartbeat
from .peers import Peers
from .replies import Elsewhere
from .shared import Shared
from .slot import Slot
from .tasks import keep
from .token_record import TokenRecord

logger = logging.getLogger(__name__)

_ENDS = "this node shuts down and the call ends with it; start it again if that is safe"
_CUT = (
    "this node shuts down, and the call's first round was cut off: how much of it was done is not known; start the "
    "call again if that is safe"
)
_MOVES = "this node shuts down; another one goes on with what the store has of this call; send the same request again"
_NEW = "this node shuts down; nothing was started; send the request again"
CARRIED = (
    "this node shuts down; nothing was done; send the same request again: another node carries the call on, or says "
    "what became of it"
)
_DRAINS = "this node drains, and no other one is live; nothing was started; send the request again"
_LAPSED = "its node lease is not valid: the store takes no heartbeat, or it lapsed"
_LOST = "another process runs under this node's name, so no call runs here; nothing was done; send the request again"
_LATER = (
    "they are if it answers before this process ends; else they continue from their journals when the lease is gone"
)
_PORTION = 500
"""How many calls are released at once. More would fill the queue of the store and block the loop for running rounds."""
_MAX_NAMED, _MAX_TOOL_CHARACTERS = 20, 100
"""How many calls the report of a deadline names, and how much of each tool's name, which a client may have chosen."""
_RELEASE_TIMEOUT = 5.0
"""Seconds to wait for the release of one portion, even at the deadline of a drain."""


class NodeDrain:
    """Decides which requests a node takes, and how it leaves its fleet.

    `leaving` is true once the process itself ends after the drain. `begun` is true from the start of a drain, `on`
    once the node knows which nodes carry its calls on, `over` when the first drain has waited for its calls or met
    its deadline, `closed` when nothing runs on this node any more."""

    def __init__(self, shared: Shared, heartbeat: Heartbeat | Alone, peers: Peers) -> None:
        self._heartbeat, self._peers = heartbeat, peers
        self._table, self._counts, self._clock = shared.table, shared.counts, shared.clock
        self._observers, self._feed = shared.observers, shared.loop.feed
        self._changed = asyncio.Event()
        self._visitors = self._releases_answered = 0
        self.unanswered = 0
        """How many requests of ordinary rounds have no complete response yet, whichever node serves them. The HTTP
        entry counts them itself: a call for it would cost each round."""
        self._loop = shared.loop
        self.begun = self.closed = self.over = self.leaving = False
        self._order: object = None
        """The present drain; a drain that finds another one here was taken back."""
        self.released = 0
        """How many calls this drain has handed off."""
        self.released_ever = 0
        """How many calls this process has handed off."""
        self._lost_told = False
        """Whether the calls that end with this process were reported as lost."""

    def opened(self) -> None:
        """The node takes calls, for the first time or again."""
        self._changed = asyncio.Event()
        self.begun = self.closed = self.over = self.leaving = self._lost_told = False
        self._loop.drain = None
        self._heartbeat.state = LIVE

    @property
    def on(self) -> bool:
        """Whether the node hands its calls off: it drains, and knows which nodes carry them on."""
        return self._loop.drain is not None

    @property
    def shared(self) -> bool:
        """Whether calls outlive this process in a shared store: another process may carry them on."""
        return isinstance(self._heartbeat, Heartbeat)

    def refusal(self, closed: str = "") -> fx.Refusal | None:
        """The refusal of all requests if this node takes none; None if it takes requests. `closed` is the text of the
        refusal after the node has closed; the default text is for a retry of a held call."""
        if self.closed:
            return fx.Refusal(fx.Reason.UNAVAILABLE, detail=closed or (CARRIED if self.shared else _ENDS))
        if self._heartbeat.lost.is_set():
            return fx.Refusal(fx.Reason.UNAVAILABLE, detail=_LOST)
        return None

    def last_reply(self, slot: Slot) -> Elsewhere | fx.Refusal:
        """The reply to requests that wait for this call when the node closes. If its record is still being read, no
        frame of it is here: they are passed on, as those that come after the node has closed."""
        heir = self.heir(slot.call.id) if slot.call.phase is Phase.LOOKING else None
        if heir is not None:
            return Elsewhere(*heir)
        return fx.Refusal(fx.Reason.UNAVAILABLE, slot.call.round, self._shutdown_detail(slot))

    def _shutdown_detail(self, slot: Slot) -> str:
        if slot.frame is not None and slot.call.round == 0:
            return _CUT
        if not self.shared and not isinstance(slot.backing.records, TokenRecord):
            return _ENDS
        if slot.frame is None:
            return CARRIED
        return _MOVES if slot.call.reentrant else _ENDS

    def divert_start(self, call: CallId | None) -> Elsewhere | fx.Refusal | None:
        """The reply to a new call if this node doesn't take it: another node, or a refusal. None if it takes it."""
        heir = self.heir(call or fresh_call()) if self.on else None
        if heir is not None:
            return Elsewhere(*heir)
        refusal = self.refusal(_NEW)
        if refusal is None and not self.on:
            return None
        return fx.Refusal(fx.Reason.NOT_TAKEN, detail=_DRAINS if refusal is None else refusal.detail)

    def divert_retry(self, call: CallId, closed: str = "") -> Elsewhere | fx.Refusal | None:
        """The reply to a retry if this node doesn't take it: another node, or a refusal. None if it takes it. Retries
        still come after the node has closed, over connections that are open."""
        heir = self.heir(call) if self.closed else None
        return self.refusal(closed) if heir is None else Elsewhere(*heir)

    def heir(self, call: CallId) -> tuple[NodeId, str] | None:
        """The name and the address of the node that carries a call on if this node drains. None if it does not drain,
        or if no other node is live."""
        return self._peers.heir(call) if self.on else None

    def unready(self) -> str | None:
        """Why this node takes no new call now; None if it takes calls."""
        if (refusal := self.refusal()) is not None:
            return refusal.detail
        if self.begun:
            return "it drains"
        return None if lease.is_open(self._heartbeat.lease, self._clock.now()) else _LAPSED

    def stepped(self, slot: Slot, was: Phase, event: ev.Event) -> None:
        """A call has taken a step while the node drains."""
        if self._may_go(slot):
            self._feed(slot, ev.Drain())
        elif was is Phase.RELEASING and slot.call.phase is not was:
            self._releases_answered += not isinstance(event, ev.StoreDown)
            self.released += isinstance(event, ev.Acked)
            self.released_ever += isinstance(event, ev.Acked)
        self._changed.set()

    @contextlib.contextmanager
    def visited(self) -> Iterator[None]:
        """Wraps a request whose call is not in the table, so that a drain waits for it, too."""
        self._visitors += 1
        try:
            yield
        finally:
            self._visitors -= 1
            self._changed.set()

    def responded(self) -> None:
        """Look again whether all requests of ordinary rounds have their responses."""
        self._changed.set()

    async def wait_for_responses(self, patience: float) -> None:
        """Wait up to `patience` seconds until every request of an ordinary round has its response."""
        await self._wait(lambda: not self.unanswered, self._clock.now() + patience)

    async def drain(self, patience: float, parked: bool, leaves: bool) -> None:
        """Hand calls off; then wait up to `patience` seconds for rounds that run and, if `parked`, for calls that only
        this process can carry on. If a drain was begun before, wait up to `patience` seconds for that one. `leaves`
        says that the process ends then: such a drain can't be taken back."""
        began = self._clock.now()
        self.leaving = self.leaving or leaves
        if self.begun:
            await self._wait(lambda: self._is_settled() and (self.over or not parked), began + patience)
            if leaves and self.over and not self._lost_told:
                # What an earlier drain had left may have ended since; the rest ends with this process.
                self._log_deadline()
            return
        self.begun, order = True, object()
        self._order = order
        try:
            until = began + patience
            turn = partial(self._drain, order, began, patience, parked)
            await keep("the drain", turn, lambda: self.over or self._order is not order or self._clock.now() >= until)
        finally:
            if self._order is order:
                self.over = True
                self._changed.set()

    def undo(self) -> bool:
        """Take the drain back: the node takes calls again. False if it does not drain, or if its process leaves."""
        if not self.begun or self.leaving or self.closed:
            return False
        self._order = None
        self.begun = self.over = False
        self._loop.drain = None
        released, self.released = self.released, 0
        self._heartbeat.announce(LIVE)
        self._changed.set()
        text = f"the drain was taken back: this node takes calls again; {released} calls were handed off by then"
        self._log_info(text, EventKind.UNDRAINED)
        return True

    async def _drain(self, order: object, began: float, patience: float, parked: bool) -> None:
        await self._peers.follow()
        if self._order is not order:
            return
        self._loop.drain = self.stepped
        self._heartbeat.announce(DRAINING)
        await self._hand_off(order, began + patience)
        if self._order is not order:
            return
        # The lease says how many calls were handed off, before it is given back.
        self._heartbeat.announce(DRAINING)
        waiting, running = self._remaining()
        if (waiting and parked) or running:
            self._log_info(
                f"node drains: {self.released} calls handed off; {waiting if parked else 0} parked calls and {running} "
                f"rounds that run have {patience:g} s"
            )
        over = self._is_empty if parked else self._is_still
        ended = await self._wait(lambda: self._order is not order or over(), began + patience)
        if self._order is not order:
            return
        self.over = True
        if ended:
            self._log_info(f"node drained: {self.released} calls handed off")
        self._log_kept()
        self._log_deadline()

    def _log_kept(self) -> None:
        """Log how many calls are left that the store did not let go."""
        if kept := sum(map(self._may_leave, self._table)):
            self._log_warning(f"the store takes no release: {kept} calls were not handed off; {_LATER}")

    def _log_deadline(self) -> None:
        """Log the calls that end with this process. It may end now, or go on after `/admin/drain` and answer some. In a
        rehearsal other nodes carry them on."""
        if rehearsal_observer.get() is not None:
            return
        left = [slot for slot in self._table if not self._may_leave(slot)]
        lost = [slot for slot in left if slot.call.phase is Phase.PARKED]
        cut = [slot for slot in left if slot.call.phase is not Phase.PARKED]
        if left or self._visitors:
            self._counts["deadline"] += 1
            running = len(cut) + self._visitors
            self._log_warning(
                f"drain met its deadline: {len(lost)} parked calls that only this process can carry on are lost when "
                f"it ends, {running} rounds that run are cut{_names('lost', lost)}{_names('cut', cut)}",
                lost=len(lost) if self.leaving else 0,
            )
            self._lost_told = self.leaving

    def _log_info(self, text: str, kind: EventKind = EventKind.DRAIN) -> None:
        logger.info("%s", text)
        self._observers.happened(kind, text, None)

    def _log_warning(self, text: str, lost: int = 0) -> None:
        logger.warning("%s", text)
        self._observers.happened(EventKind.DRAIN, text, None, lost)

    def _remaining(self) -> tuple[int, int]:
        """Two counts: of parked calls on this node, and of rounds that run."""
        waiting, running = self._table.load()
        return waiting, running + self._visitors

    def _may_go(self, slot: Slot) -> bool:
        """Whether a call may be carried on elsewhere and can be released now: never while an effect or a write is under
        way."""
        return slot.call.phase is Phase.PARKED and may_be_dropped(slot.call) and self.shared

    def _may_leave(self, slot: Slot) -> bool:
        """Whether a call is to be handed off, or its release waits for the store."""
        return self._may_go(slot) or slot.call.outbox.has(Op.RELEASE)

    def _is_empty(self) -> bool:
        return not len(self._table) and not self._visitors

    def _is_settled(self) -> bool:
        return self._is_still() and not any(map(self._may_leave, self._table))

    def _is_still(self) -> bool:
        return not self._table.load()[1] and not self._visitors

    async def _hand_off(self, order: object, until: float) -> None:
        """Release the calls that may be carried on elsewhere, until the drain is taken back. If the store answers none
        of a portion, wait for it until `until` (seconds on the node's clock), and go on when it answers: with the
        heartbeat that it takes, the releases that it left unanswered are sent again."""
        parked = filter(self._may_go, self._table)
        while self._order is order and (portion := tuple(itertools.islice(parked, _PORTION))):
            answered = self._releases_answered
            for slot in portion:
                self._feed(slot, ev.Drain())
            await self._wait(lambda: not any(map(_is_on_its_way, portion)), self._clock.now() + _RELEASE_TIMEOUT)
            if self._releases_answered == answered and not await self._is_answered(order, answered, until):
                return

    async def _is_answered(self, order: object, answered: int, until: float) -> bool:
        """Wait until the store answers a release, after `answered` others. False if `until` came first."""
        if until > self._clock.now():
            self._log_warning("the store takes no release: no call is handed off until it does, or the drain is over")
        return await self._wait(lambda: self._order is not order or self._releases_answered != answered, until)

    async def _wait(self, over: Callable[[], bool], until: float) -> bool:
        """Wait until `over` returns true; it is called after each step. False if `until` (seconds on the node's clock)
        came first."""
        while not over():
            self._changed.clear()
            if (left := until - self._clock.now()) <= 0:
                return False
            # Waiting in this task: if two drains wait, one change wakes both.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()
        return True


def _names(what: str, slots: Sequence[Slot]) -> str:
    """Which calls these are, each by its tool and the beginning of its id, as `; lost: book 5f3a9c01`; empty for none.
    After the first few only their number follows."""
    if not slots:
        return ""
    named = [f"{printable(slot.tool)[:_MAX_TOOL_CHARACTERS]} {prefix(slot.call.id)}" for slot in slots[:_MAX_NAMED]]
    more = [f"{len(slots) - _MAX_NAMED} more"] if len(slots) > _MAX_NAMED else []
    return f"; {what}: {', '.join([*named, *more])}"


def _is_on_its_way(slot: Slot) -> bool:
    """Whether the release of a call awaits its answer, or the heal that goes before it. One that the store left
    unanswered does not."""
    return slot.call.outbox.has(Op.RELEASE) and not slot.call.outbox.stalled
