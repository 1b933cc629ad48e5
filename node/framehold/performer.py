"""Performs what the core wants done with frames and requests: enter, deliver, let go, cancel, reply, forget.

Everything here happens within one step of `Runtime.feed`: what it brings about is queued there, never nested.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core import journal
from framehold_core.call import Phase
from framehold_core.errors import JournalError, SealError
from framehold_core.ids import NodeId, prefix
from framehold_core.journal import Draft, Kind, Lane

from . import answers as answers_of
from . import clock, eviction, passing, tokens
from .answers import MalformedAnswer
from .asks import NOTHING, Carrier, Question
from .chance import Seeded
from .config import Settings
from .frames import Frame
from .ledger import Ledger
from .logs import about
from .passing import Passing
from .rebuild import GIVEN, Rebuild
from .slots import Answer, Elsewhere, Ended, Parked, Slot
from .table import Table
from .tasks import Tasks
from .watch import Watches

logger = logging.getLogger(__name__)

_TAKEN = (
    "call %s of %r: the process that ran it is gone; it is carried on here, its handler entered again with %d recorded "
    "entries (epoch %d)"
)
_ALTERED = (
    "its journal is not the one that its record names: entries are missing, altered or of another time; the call was "
    "not continued; check who else writes this store"
)
_NO_FURTHER = "call %s of %r can't be continued here: %s; its client is told so"
_BURSTS = (*eviction.CAUSES, "released", "unreleased")
"""Why frames go by the thousand."""


class Nobody:
    """Carries a round for which nobody waits any more."""

    variables = contextvars.Context()

    def taken_over(self) -> None:
        """Nobody is told."""

    def refusal(self, question: Question) -> object | None:
        """Whoever comes next may be able to answer."""
        return None


class Performer:
    """Performs effects on slots. `feed` takes what comes of them."""

    def __init__(
        self,
        settings: Settings,
        table: Table,
        tasks: Tasks,
        ledger: Ledger,
        counts: Counter[str],
        watches: Watches,
        feed: Callable[[Slot, ev.Event], None],
    ) -> None:
        self._settings, self._table, self._tasks, self._ledger = settings, table, tasks, ledger
        self._payloads, self._counts, self._watches, self._feed = ledger.payloads, counts, watches, feed
        self.perform: dict[type[Any], Callable[[Slot, Any], None]] = {
            fx.Write: ledger.write,
            fx.Lookup: ledger.look,
            fx.Run: self._run,
            fx.Deliver: self._deliver,
            fx.Go: lambda slot, effect: self._learned(slot, "go", effect.key, True),
            fx.InDoubt: lambda slot, effect: self._learned(slot, "go", effect.key, False),
            fx.Kept: lambda slot, effect: self._learned(slot, "kept", effect.key),
            fx.Cancel: self._cancel,
            fx.Reply: self._reply,
            fx.Relay: self._relay,
            fx.Ungated: self._ungated,
            fx.Forget: self.forget,
        }

    # ---- frames

    def _run(self, slot: Slot, effect: fx.Run) -> None:
        """Enter the handler; where it was entered before, with what is recorded."""
        entrance, again = slot.entrance, slot.call.phase is Phase.REBUILDING
        slot.due = clock.now() + self._settings.max_round
        replay, given = None, entrance.given
        if again:
            opened = partial(self._payloads.opened, slot.call.id)
            try:
                if journal.chain(journal.GENESIS, slot.log) != slot.call.jh or not slot.call.asks:
                    raise JournalError(_ALTERED)
                replay = Rebuild(effect.entries, opened, slot.code, entrance.code)
                given = replay.given()
            except (JournalError, SealError) as error:
                self._feed(slot, ev.Unreadable(str(error)))
                return
        carrier = self._carrier(slot)
        frame = slot.frame = Frame(slot, effect.epoch, carrier, NOTHING if again else entrance.prefilled, replay)
        entrance.prefilled, entrance.given = NOTHING, b""
        self._table.frames += 1
        if again:
            self._counts["rebuilding"] += 1
            frame.round = slot.call.round
            if slot.orphaned:
                self._counts["takeovers"] += 1
                logger.warning(
                    _TAKEN, prefix(slot.call.id), slot.tool, len(effect.entries), effect.epoch, extra=about(slot)
                )
                for item in slot.call.held:
                    if (waiting := slot.arrivals.get(item.waiter)) is not None:
                        waiting.carrier.taken_over()
        else:
            self._counts["entered"] += 1
            if given:
                slot.noted((Draft(Kind.VALUE, GIVEN, 0, Lane.SIDE, GIVEN, "json", given),))
        handler = slot.entrance.enter(frame, given)
        frame.task = asyncio.get_running_loop().create_task(handler, name="framehold-frame", context=frame.context)

    def _carrier(self, slot: Slot) -> Carrier:
        """The first request that waits for what the frame does."""
        waiting = (slot.arrivals.get(item.waiter) for item in (*slot.call.waiting, *slot.call.held))
        return next((arrival.carrier for arrival in waiting if arrival is not None), Nobody())

    def ended(self, slot: Slot, frame: Frame, outcome: object) -> None:
        """The handler of a frame has ended, maybe of one that was dropped."""
        if slot.frame is frame and not frame.dead:
            self._feed(slot, ev.Finished(outcome))
        elif frame.dead and slot.entrance.failed(outcome):
            self._counts["unclean"] += 1
            told = "a handler of %r raised while it was cancelled; its call is not harmed by it"
            logger.warning(told, slot.tool, extra=about(slot))

    def rebuilt(self, slot: Slot) -> None:
        """A frame stands where its journal ends. The answers that wait for it are read by their own asks first, all of
        them, before any is taken (rule 10)."""
        frame, call = slot.frame, slot.call
        if frame is None or frame.replay is None or call.phase is not Phase.REBUILDING:
            return
        self._counts["rebuilt"] += 1
        slot.questions = tuple((ask.key, frame.replay.wires[ask.key]) for ask in call.asks)
        slot.shown = frame.replay.shown
        frame.round = call.round if call.answered is None else call.round + 1
        for item in call.held:
            arrival = slot.arrivals.get(item.waiter)
            if arrival is None:
                continue
            try:
                arrival.parsed = answers_of.parsed(slot, item.round, arrival.raw)
            except MalformedAnswer as error:
                slot.goes(item.waiter)
                if not arrival.future.done():
                    arrival.future.set_exception(error)
                self._feed(slot, ev.Left(item.waiter))
        self._feed(slot, ev.Rebuilt())

    def _deliver(self, slot: Slot, effect: fx.Deliver) -> None:
        frame = slot.frame
        assert frame is not None, "answers are delivered to a frame"
        arrival = slot.arrivals[slot.call.waiting[0].waiter]
        frame.carrier, frame.round = arrival.carrier, slot.call.round + 1
        slot.due = clock.now() + self._settings.max_round
        self._counts["resumed"] += 1
        shown, slot.shown = {ask.key: ask.fp for ask in slot.shown}, ()
        rest, frame.rest = frame.rest, ()
        frame.deliver((*rest, *effect.answers), arrival.parsed, shown)

    def _learned(self, slot: Slot, step: str, *told: Any) -> None:
        if slot.frame is not None:
            getattr(slot.frame.learned.onces, step)(*told)

    def _cancel(self, slot: Slot, effect: fx.Cancel) -> None:
        self._counts[effect.cause] += 1
        self._watches.dropped(slot, effect.cause)
        frame, slot.frame = slot.frame, None
        slot.log, slot.size, slot.packed, slot.questions, slot.shown = (), 0, None, (), ()
        if frame is not None:
            # Of those that are dropped in bursts, one line for the burst says enough.
            level = logging.DEBUG if effect.cause in _BURSTS else logging.INFO
            told = (prefix(slot.call.id), frame.epoch, effect.cause)
            if logger.isEnabledFor(level):
                logger.log(level, "call %s: frame of epoch %d dropped (%s)", *told, extra=about(slot))
            self._table.frames -= 1
            self._tasks.bury(frame)

    def forget(self, slot: Slot, effect: fx.Forget) -> None:
        """Nothing of the call is left here."""
        self._ledger.gate.left(slot, gone=True)
        if self._table.remove(slot) and slot.frame is not None:
            self._table.frames -= 1
            self._tasks.bury(slot.frame)
            slot.frame = None

    # ---- requests

    def _reply(self, slot: Slot, effect: fx.Reply) -> None:
        answer = effect.answer
        if isinstance(answer, fx.Questions):
            self._counts["parked"] += 1
            refusal = self._unaskable(slot, effect.waiter)
            told = self._asking(slot, answer) if refusal is None else Ended(refusal)
            self.answer(slot, effect.waiter, told)
            if slot.frame is not None and slot.call.phase is Phase.PARKED:
                slot.frame.carrier = None
        elif isinstance(answer, fx.Refusal):
            if answer.reason in (fx.Reason.DIVERGED, fx.Reason.UNREADABLE):
                detail = answer.detail
                logger.error(_NO_FURTHER, prefix(slot.call.id), slot.tool, detail, extra=about(slot))
            self.answer(slot, effect.waiter, answer)
        else:
            outcome = self._ledger.opened(slot, answer) if answer.sealed else Ended(answer.value)
            self.answer(slot, effect.waiter, outcome)

    def _asking(self, slot: Slot, at: fx.Questions) -> Answer:
        """A reply with questions. Where nothing is kept, its token holds the whole call, and the frame goes."""
        lifetime, records, state = slot.entrance.lifetime or 0.0, slot.home.records, ""
        if isinstance(records, Passing):
            self._feed(slot, ev.Evict("passed"))
            chance, code = slot.home.chance, slot.entrance.code
            assert isinstance(chance, Seeded), "what a client may branch is drawn from a seed"
            state = passing.state(slot.call.id, records, chance, self._payloads.sealer, code=code, lifetime=lifetime)
            if (excess := tokens.excess(state, self._settings.max_body)) is not None:
                detail = f"the call ends here: what it has learned {excess} here, or use strategy hold"
                logger.error("call %s: %s", prefix(slot.call.id), detail, extra=about(slot))
                return fx.Refusal(fx.Reason.TOO_LARGE, at.round, detail)
        if at.lasts < slot.call.ttl - 1.0:
            # Asked again, a round ends when it would have, to the second: its record lives no longer (rule 17).
            lifetime = max(1.0, at.lasts // 1)
        return Parked(dict(slot.questions), slot.call.id, at, state, lifetime)

    def _unaskable(self, slot: Slot, waiter: int) -> object | None:
        """What this one request gets instead of questions that its client can't be asked: the call stays as it is, for
        one that can. The request that carried the round was looked at when the handler asked."""
        frame, arrival = slot.frame, slot.arrivals.get(waiter)
        if frame is None or arrival is None or arrival.carrier is frame.carrier:
            return None
        asks = (frame.pending[key] for key, _ in slot.questions if key in frame.pending)
        refusals = (arrival.carrier.refusal(ask.question) for ask in asks)
        return next((refusal for refusal in refusals if refusal is not None), None)

    def answer(self, slot: Slot, waiter: int, answer: Answer) -> None:
        """Give one waiting request its reply."""
        arrival = slot.goes(waiter)
        if arrival is not None and not arrival.future.done():
            arrival.future.set_result(answer)

    def _ungated(self, slot: Slot, effect: fx.Ungated) -> None:
        self._counts["ungated"] += 1
        logger.warning(
            "call %s: its result leaves before it is written, since the store does not answer; a duplicate may see "
            "another one until then",
            prefix(slot.call.id),
            extra=about(slot),
        )

    def _relay(self, slot: Slot, effect: fx.Relay) -> None:
        node = slot.heir or NodeId(effect.node)
        self.answer(slot, effect.waiter, Elsewhere(node, self._ledger.addresses.get(node, "")))
