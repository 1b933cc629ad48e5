"""How a node leaves its fleet: what it hands off, and what it waits for.

    1. its lease says `draining`: routers take it off their rings; what still comes for a new call, or for one that
       was handed off, is passed on to another node
    2. parked calls whose handlers may be entered again are released, a portion at a time, and so is each that parks
       later: the next retry goes on elsewhere without waiting for a lease to run out
    3. rounds that run, and parked calls that nobody else may carry on, have until the deadline
    4. whoever waits at the deadline is told so, frames are torn down, and the lease is given back

The law: nobody waits for people longer than the deadline, and nothing is released while it runs (PROTOCOL rule 8).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterator

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core import lease
from framehold_core.call import Phase, at_rest
from framehold_core.ids import CallId, NodeId
from framehold_router.membership import DRAINING, LIVE
from framehold_router.placement import fresh_call

from . import clock
from .heartbeat import Alone, Heartbeat
from .passing import Passing
from .peers import Peers
from .slots import Elsewhere, Slot
from .table import Table
from .watch import Watches

logger = logging.getLogger(__name__)

_SHUT = "this node shuts down and the call ends with it; start it again if that is safe"
_MOVES = "this node shuts down; nothing was lost; send the same request again"
_NEW = "this node shuts down; nothing was started; send the request again"
CARRIED = (
    "this node shuts down; nothing was done; send the same request again: another node carries the call on, or says "
    "what became of it"
)
_DRAINS = "this node drains, and no other one is live; nothing was started; send the request again"
_LAPSED = "its node lease is not valid: the store does not answer, or it lapsed"
_LOST = "another process runs under this node's name, so no call runs here; nothing was done; send the request again"
_LATER = "they continue from their journals, here or, when this node's lease is gone, elsewhere"
_PORTION = 500
"""How many calls are released at once: more would fill the store's queue, and keep the loop from the rounds."""
_HANDED = 5.0
"""Seconds at most for a portion: a store that doesn't answer must not hold up a drain."""


class Drain:
    """What a node takes, and how it leaves. `begun` from the first word of it, `on` once it is known who carries on
    what this node doesn't, `over` when the first drain has waited for all that it waits for, `closed` when nothing
    runs here any more."""

    def __init__(
        self,
        table: Table,
        heartbeat: Heartbeat | Alone,
        peers: Peers,
        counts: Counter[str],
        watches: Watches,
        feed: Callable[[Slot, ev.Event], None],
    ) -> None:
        self._table, self._heartbeat, self._peers, self._feed = table, heartbeat, peers, feed
        self._counts, self._watches = counts, watches
        self._changed = asyncio.Event()
        self._visitors = self._heard = 0
        self.begun = self.on = self.closed = self.over = False
        self.released = 0
        """How many calls were handed off."""

    def opened(self) -> None:
        """The node takes calls, for the first time or again."""
        self.begun = self.on = self.closed = self.over = False
        self._heartbeat.state = LIVE

    @property
    def shared(self) -> bool:
        """Whether a call outlives this process: another one, or its next life, may carry it on."""
        return isinstance(self._heartbeat, Heartbeat)

    def refusal(self, closed: str = "") -> fx.Refusal | None:
        """Why this node takes no request at all, if it doesn't. `closed` is what it is told once everything has ended;
        one that answers a call that is held hears by default what becomes of such a call."""
        if self.closed:
            return fx.Refusal(fx.Reason.UNAVAILABLE, detail=closed or (CARRIED if self.shared else _SHUT))
        if self._heartbeat.lost.is_set():
            return fx.Refusal(fx.Reason.UNAVAILABLE, detail=_LOST)
        return None

    def parting(self, slot: Slot) -> str:
        """What is told to whoever waits for a call that is here when everything ends."""
        if not self.shared and not isinstance(slot.home.records, Passing):
            return _SHUT
        if slot.frame is None:
            return CARRIED
        return _MOVES if slot.call.reentrant and slot.call.round > 0 else _SHUT

    def instead(self, call: CallId | None) -> Elsewhere | fx.Refusal | None:
        """What becomes of a new call that this node doesn't take; None where it does."""
        if not self.on:
            return self.refusal(_NEW)
        heir = self.heir(call or fresh_call())
        if heir is not None:
            return Elsewhere(*heir)
        return self.refusal(_NEW) or fx.Refusal(fx.Reason.UNAVAILABLE, detail=_DRAINS)

    def elsewhere(self, call: CallId, closed: str = "") -> Elsewhere | fx.Refusal | None:
        """What becomes of a further round that this node doesn't take; None where it does. The last ones come when
        everything has ended here, over connections that were not closed yet."""
        heir = self.heir(call) if self.closed else None
        return self.refusal(closed) if heir is None else Elsewhere(*heir)

    def heir(self, call: CallId) -> tuple[NodeId, str] | None:
        """Who carries on a call that this node, if it drains, doesn't: the name, and where it is reached."""
        return self._peers.heir(call) if self.on else None

    def unready(self) -> str | None:
        """Why this node takes no new call now; None where it does."""
        if (refusal := self.refusal()) is not None:
            return refusal.detail
        if self.begun:
            return "it drains"
        return None if lease.is_open(self._heartbeat.lease, clock.now()) else _LAPSED

    def stepped(self, slot: Slot, was: Phase, event: ev.Event) -> None:
        """A call has taken a step while the node drains."""
        if self._may_go(slot):
            self._feed(slot, ev.Drain())
        elif was is Phase.RELEASING and slot.call.phase is not was:
            self._heard += not isinstance(event, ev.StoreDown)
            self.released += isinstance(event, ev.Acked)
        self._changed.set()

    @contextlib.contextmanager
    def visited(self) -> Iterator[None]:
        """Round a request whose call is not in the table: it is waited for too."""
        self._visitors += 1
        try:
            yield
        finally:
            self._visitors -= 1
            self._changed.set()

    async def drain(self, patience: float, parked: bool) -> None:
        """Hand off; then wait up to `patience` seconds for rounds that run and, if `parked`, for calls that nobody else
        may carry on. Where a drain was begun before, wait as long for what it still waits for."""
        began = clock.now()
        if self.begun:
            await self._wait(lambda: self._is_still() and (self.over or not parked), began + patience)
            return
        self.begun = True
        try:
            await self._drain(began, patience, parked)
        finally:
            self.over = True
            self._changed.set()

    async def _drain(self, began: float, patience: float, parked: bool) -> None:
        await self._peers.follow()
        self.on = True
        self._heartbeat.announce(DRAINING)
        await self._hand_off()
        waiting, running = self._left()
        if (waiting and parked) or running:
            self._tell(
                f"node drains: {self.released} calls handed off; {waiting if parked else 0} parked calls and {running} "
                f"rounds that run have {patience:g} s"
            )
        over = self._is_empty if parked else self._is_still
        if await self._wait(over, began + patience):
            self._tell(f"node drained: {self.released} calls handed off")
        waiting, running = self._left()
        if waiting or running:
            self._counts["deadline"] += 1
            # Nobody here knows whether the process ends now, or goes on after `/admin/drain` and answers some of them.
            self._warn(
                f"drain met its deadline: {waiting} parked calls that only this process can carry on are lost when it "
                f"ends, {running} rounds that run are cut"
            )

    def _tell(self, text: str) -> None:
        logger.info("%s", text)
        self._watches.happened("drain", text)

    def _warn(self, text: str) -> None:
        logger.warning("%s", text)
        self._watches.happened("drain", text)

    def _left(self) -> tuple[int, int]:
        """How many parked calls are here, and how many rounds that run."""
        waiting, running = self._table.load()
        return waiting, running + self._visitors

    def _may_go(self, slot: Slot) -> bool:
        """Whether it may be carried on elsewhere, and the machine would release it now: never with an effect, or a
        write, under way."""
        return slot.call.phase is Phase.PARKED and at_rest(slot.call) and self.shared

    def _is_empty(self) -> bool:
        return not len(self._table) and not self._visitors

    def _is_still(self) -> bool:
        return not self._table.load()[1] and not self._visitors

    async def _hand_off(self) -> None:
        """Release what may be carried on elsewhere. Where the store hears nothing of a portion, the rest is let go
        without a word: their journals are kept, and whoever carries them on waits for this node's lease."""
        parked = filter(self._may_go, self._table)
        while portion := tuple(itertools.islice(parked, _PORTION)):
            heard = self._heard
            for slot in portion:
                self._feed(slot, ev.Drain())
            await self._wait(lambda: not any(map(_is_on_its_way, portion)), clock.now() + _HANDED)
            if self._heard == heard:
                rest = tuple(parked)
                self._warn(f"the store does not answer: {len(portion + rest)} calls were not handed off; {_LATER}")
                for slot in rest:
                    self._feed(slot, ev.Evict("unreleased"))
                return

    async def _wait(self, over: Callable[[], bool], until: float) -> bool:
        """Wait for `over`, which is asked after each step, until a time on the node's clock; whether it came."""
        while not over():
            self._changed.clear()
            if (left := until - clock.now()) <= 0:
                return False
            # In this very task: of two that wait, neither misses what wakes the other.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()
        return True


def _is_on_its_way(slot: Slot) -> bool:
    return slot.call.phase is Phase.RELEASING
