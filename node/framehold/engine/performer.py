"""Performs the effects that core's `step` returns for frames and requests: enter a handler, deliver answers, let an
effect run, cancel a frame, reply to a request, forget a call.

Everything here happens within one step of the loop. An event that an effect causes is queued there, never stepped at
once.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.call import Phase, forget, without_frame
from framehold_core.ending import COMPLETED, LOST
from framehold_core.errors import JournalError, SealError
from framehold_core.ids import prefix
from framehold_core.journal import Draft, EntryKind, EntryLane

from ..config import Settings
from ..frame.asking_threads import AskingThreads
from ..frame.asks import NO_ANSWERS, Question
from ..frame.entropy import SeededEntropy
from ..frame.frame import Frame
from ..frame.ports import RoundCarrier
from ..frame.rebuild import GIVEN, Rebuild
from ..frame.rehearsed_frame import RehearsedFrame
from . import answer_parsing as answers_of
from . import eviction, token_claims, token_record
from .answer_parsing import MalformedAnswer
from .frame_link import FrameLink, FrameServices
from .owed_results import OwedResults
from .records import CallRecords
from .replies import Answer, Elsewhere, Ended, Parked
from .shared import Shared
from .slot import Slot
from .token_record import TokenRecord

logger = logging.getLogger(__name__)

_TAKEN_OVER = (
    "call %s of %r: the process that ran it is gone; it is carried on here, its handler entered again with %d recorded "
    "entries (epoch %d)"
)
_UNASKED = (
    "its record was exchanged while it was claimed: it has asked nothing; the call was not continued; check who else "
    "writes this store"
)
_NOT_CONTINUED = "call %s of %r can't be continued here: %s; its client is told so"
_BURST_CAUSES = (*eviction.CAUSES, "released")
"""Causes that drop thousands of frames at once."""


class NoCarrier:
    """The carrier of a round whose requests have all left."""

    variables = contextvars.Context()
    came = 0.0
    handler_context: contextvars.Context | None = None
    ending: asyncio.Task[None] | None = None

    def __setattr__(self, name: str, value: object) -> None:
        """Keep nothing of the handler: no request reads it."""

    def taken_over(self) -> None:
        """Do nothing: no request waits."""

    may_be_passed_on = False

    def passed_on(self, address: str) -> None:
        """Do nothing: no request waits."""

    def runs_kept_code(self) -> None:
        """Do nothing: no request waits."""

    def refusal(self, question: Question) -> object | None:
        """None: the client of the next request may be able to answer."""
        return None


class Performer:
    """Performs effects on slots. Events that follow from an effect are fed to the loop. `perform` maps the type
    of each effect to the function that performs it."""

    def __init__(self, settings: Settings, shared: Shared, records: CallRecords) -> None:
        self._settings, self._records = settings, records
        self._table, self._tasks, self._counts = shared.table, shared.tasks, shared.counts
        self._clock = shared.clock
        self._observers, self._feed, self._payloads = shared.observers, shared.loop.feed, records.payloads
        self.owed_results = OwedResults(settings.result_delay, self._feed)
        threads = AskingThreads(settings.max_asking_threads)
        self._new_frame = RehearsedFrame if settings.rehearse else Frame
        parts = (self._table, self._feed, self._payloads, self._tasks, threads)
        limits = (settings.max_journal, settings.most_written)
        self._services = FrameServices(*parts, *limits, self._rebuilt, self._ended)
        self.perform: dict[type[Any], Callable[[Slot, Any], None]] = {
            fx.Write: records.write,
            fx.Lookup: records.lookup,
            fx.Run: self._run,
            fx.Deliver: self._deliver,
            fx.Go: self._let_effect_run,
            fx.RaiseInDoubt: self._refuse_effect,
            fx.Kept: self._effect_kept,
            fx.Recorded: self._results_recorded,
            fx.Cancel: self._cancel,
            fx.Respond: self._reply,
            fx.Relay: self._relay,
            fx.Ungated: self._ungated,
            fx.Forget: self.forget,
        }

    # ---- frames

    def _run(self, slot: Slot, effect: fx.Run) -> None:
        """Enter the handler in a new frame. If the call is rebuilt, the frame replays the journal."""
        handler, again = slot.enter(), slot.call.phase is Phase.REBUILDING
        slot.due = self._clock.now() + self._settings.max_round
        replay, given = None, handler.given
        if again:
            assert slot.head is not None, "a frame is rebuilt from a record"
            opened = partial(self._payloads.opened, slot.call.id)
            try:
                if not slot.call.asks:
                    raise JournalError(_UNASKED)
                replay = Rebuild(effect.entries, opened, slot.head.code, handler.code)
                given = replay.given()
            except (JournalError, SealError) as error:
                self._feed(slot, ev.Unreadable(str(error)))
                return
        carrier = self._carrier(slot)
        link = FrameLink(slot, self._services)
        frame = slot.frame = self._new_frame(
            link, effect.epoch, carrier, NO_ANSWERS if again else handler.prefilled, replay
        )
        handler.prefilled, handler.given = NO_ANSWERS, b""
        self._table.frames += 1
        self._table.woke(slot)
        if again:
            self._counts["rebuilding"] += 1
            self._counts["kept code"] += handler.enters_kept
            frame.round = slot.call.round
            if slot.orphaned:
                self._report_takeover(slot, effect)
        else:
            self._counts["entered"] += 1
            if given:
                link.noted((Draft(EntryKind.VALUE, GIVEN, 0, EntryLane.SIDE, GIVEN, "json", given),))
        running = handler.enter(frame, given)
        frame.task = asyncio.get_running_loop().create_task(running, name="framehold-frame", context=frame.context)

    def _report_takeover(self, slot: Slot, effect: fx.Run) -> None:
        """The process that ran this call is gone: count and log the takeover, and inform the waiting requests."""
        self._counts["takeovers"] += 1
        details = (prefix(slot.call.id), slot.tool, len(effect.entries), effect.epoch)
        self._records.bursts.warning(_TAKEN_OVER, *details, extra=slot.log_fields)
        for item in slot.call.undecided:
            if (waiting := slot.arrivals.get(item.waiter)) is not None:
                waiting.carrier.taken_over()

    def _carrier(self, slot: Slot) -> RoundCarrier:
        """The carrier of the first request that waits for this round."""
        for item in (*slot.call.waiting, *slot.call.undecided):
            if (arrival := slot.arrivals.get(item.waiter)) is not None:
                return arrival.carrier
        return NoCarrier()

    def _ended(self, slot: Slot, frame: Frame, outcome: object) -> None:
        """The handler of `frame` has ended. The frame may have been dropped before."""
        if slot.frame is frame and not frame.dead:
            self._feed(slot, ev.Finished(outcome, slot.handler.ending(outcome)))
        elif frame.dead and slot.handler.ending(outcome) != COMPLETED:
            self._counts["unclean"] += 1
            logger.warning(
                "a handler of %r raised while it was cancelled; its call is not harmed by it",
                slot.tool,
                extra=slot.log_fields,
            )

    def _rebuilt(self, slot: Slot) -> None:
        """A frame stands where its journal ends. All answers that wait for it are parsed by their questions before any
        of them is taken (docs/protocol.md, rule 10)."""
        frame, call = slot.frame, slot.call
        if frame is None or frame.replay is None or call.phase is not Phase.REBUILDING:
            return
        self._counts["rebuilt"] += 1
        slot.questions = tuple((ask.key, frame.replay.wires[ask.key]) for ask in call.asks)
        slot.shown_questions = frame.replay.shown_questions
        frame.round = call.round if call.answered is None else call.round + 1
        for item in call.undecided:
            arrival = slot.arrivals.get(item.waiter)
            if arrival is None:
                continue
            try:
                arrival.parsed = answers_of.parsed(slot, item.round, arrival.raw)
            except MalformedAnswer as error:
                slot.pop_arrival(item.waiter)
                if not arrival.future.done():
                    arrival.future.set_exception(error)
                self._feed(slot, ev.Left(item.waiter))
        self._feed(slot, ev.Rebuilt())

    def _deliver(self, slot: Slot, effect: fx.Deliver) -> None:
        frame = slot.frame
        assert frame is not None, "answers are delivered to a frame"
        arrival = slot.arrivals[slot.call.waiting[0].waiter]
        frame.carrier, frame.round = arrival.carrier, slot.call.round + 1
        slot.due = self._clock.now() + self._settings.max_round
        self._counts["resumed"] += 1
        shown, slot.shown_questions = {ask.key: ask.fp for ask in slot.shown_questions}, ()
        leftover, frame.leftover_answers = frame.leftover_answers, ()
        frame.deliver((*leftover, *effect.answers), arrival.parsed or {}, shown)

    def _let_effect_run(self, slot: Slot, effect: fx.Go) -> None:
        if slot.frame is not None:
            slot.frame.recorded.effects.decided(effect.key, True)

    def _refuse_effect(self, slot: Slot, effect: fx.RaiseInDoubt) -> None:
        if slot.frame is not None:
            slot.frame.recorded.effects.decided(effect.key, False)

    def _effect_kept(self, slot: Slot, effect: fx.Kept) -> None:
        if slot.call.owed:
            self.owed_results.add(slot)
        if slot.frame is not None:
            slot.frame.recorded.effects.result_kept(effect.key)

    def _results_recorded(self, slot: Slot, effect: fx.Recorded) -> None:
        if slot.frame is not None:
            slot.frame.recorded.effects.results_stored(effect.keys)

    def _cancel(self, slot: Slot, effect: fx.Cancel) -> None:
        self._counts[effect.cause] += 1
        self._observers.dropped(slot, effect.cause)
        frame, slot.frame = slot.frame, None
        slot.log, slot.size, slot.packed, slot.questions, slot.shown_questions = (), 0, None, (), ()
        slot.renew_handler()
        if frame is not None:
            # A burst has one log line of its own; its single frames are logged for debugging only.
            level = logging.DEBUG if effect.cause in _BURST_CAUSES else logging.INFO
            if logger.isEnabledFor(level):
                details = (prefix(slot.call.id), frame.epoch, effect.cause)
                logger.log(level, "call %s: frame of epoch %d dropped (%s)", *details, extra=slot.log_fields)
            self._table.frames -= 1
            self._tasks.cancel_frame(frame)

    def forget(self, slot: Slot, effect: fx.Forget) -> None:
        """Remove the call from this node. A frame that it still has is cancelled."""
        if slot.looked_up:
            self._records.gate.release(slot, gone=True)
        if effect.open_until:
            self._table.left_open(slot, effect)
        if self._table.remove(slot) and slot.frame is not None:
            self._table.frames -= 1
            self._tasks.cancel_frame(slot.frame)
            slot.frame = None

    # ---- requests

    def _reply(self, slot: Slot, effect: fx.Respond) -> None:
        answer = effect.response
        if isinstance(answer, fx.Questions):
            self._counts["parked"] += 1
            refusal = self._unaskable(slot, effect.waiter)
            reply = self._questions_reply(slot, answer) if refusal is None else Ended(refusal)
            self.answer(slot, effect.waiter, reply)
            if slot.frame is not None and slot.call.phase is Phase.PARKED and not slot.backing.drops:
                slot.frame.carrier = None
        elif isinstance(answer, fx.Refusal):
            if answer.reason in (fx.Reason.DIVERGED, fx.Reason.UNREADABLE):
                detail = answer.detail
                logger.error(_NOT_CONTINUED, prefix(slot.call.id), slot.tool, detail, extra=slot.log_fields)
            self.answer(slot, effect.waiter, answer)
        else:
            outcome = Ended(answer.value) if answer.sealed is None else self._records.open_outcome(slot, answer)
            self.answer(slot, effect.waiter, outcome)

    def _questions_reply(self, slot: Slot, at: fx.Questions) -> Answer:
        """The reply with the call's questions. With strategy replay its token holds the whole call, and the frame is
        dropped; a refusal if that token would be too large for a request."""
        lifetime, records, state = slot.handler.lifetime or 0.0, slot.backing.records, ""
        if isinstance(records, TokenRecord):
            self._feed(slot, ev.Evict("passed"))
            entropy, code = slot.backing.entropy, slot.handler.code
            assert isinstance(entropy, SeededEntropy), "what a client may branch is drawn from a seed"
            state = token_record.state(
                slot.call.id, records, entropy, self._payloads.sealer, code=code, lifetime=lifetime
            )
            if (excess := token_claims.excess(state, self._settings.max_body)) is not None:
                detail = f"the call ends here: what it has learned {excess} here, or use strategy hold"
                logger.error("call %s: %s", prefix(slot.call.id), detail, extra=slot.log_fields)
                return fx.Refusal(fx.Reason.TOO_LARGE, at.round, detail)
        if at.lasts < slot.call.ttl - 1.0:
            # The questions are sent again: the token still expires at the first time, since the record does (rule 17).
            lifetime = max(1.0, at.lasts // 1)
        return Parked(dict(slot.questions), slot.call.id, at, state, lifetime, slot.head.seal if slot.head else "")

    def _unaskable(self, slot: Slot, waiter: int) -> object | None:
        """The outcome for one request whose client can't be asked these questions; None if it can. The call stays
        parked, for a client that can. The request that carries the round was checked when the handler asked."""
        frame, arrival = slot.frame, slot.arrivals.get(waiter)
        if frame is None or arrival is None or arrival.carrier is frame.carrier:
            return None
        asks = (frame.pending[key] for key, _ in slot.questions if key in frame.pending)
        refusals = (arrival.carrier.refusal(ask.question) for ask in asks)
        return next((refusal for refusal in refusals if refusal is not None), None)

    def answer(self, slot: Slot, waiter: int, answer: Answer) -> None:
        """Give one waiting request its reply."""
        arrival = slot.pop_arrival(waiter)
        if arrival is not None and not arrival.future.done():
            if slot.handler.enters_kept:
                arrival.carrier.runs_kept_code()
            arrival.future.set_result(answer)

    def drop(self, slot: Slot, answer: Answer) -> None:
        """Remove a call in any state, and give each of its waiting requests `answer`. Later replies of the store for
        this call have no effect: nothing is claimed and no handler is entered."""
        for waiter in list(slot.arrivals):
            self.answer(slot, waiter, answer)
        self.forget(slot, forget(slot.call, None if slot.call.reentrant else LOST))
        slot.call = without_frame(slot.call)

    def _ungated(self, slot: Slot, effect: fx.Ungated) -> None:
        self._counts["ungated"] += 1
        self._records.bursts.warning(
            "call %s: its result leaves before it is written, since the store does not take it; a duplicate may see "
            "another one until then",
            prefix(slot.call.id),
            extra=slot.log_fields,
        )

    def _relay(self, slot: Slot, effect: fx.Relay) -> None:
        self.answer(slot, effect.waiter, Elsewhere(effect.node, self._records.addresses.get(effect.node, "")))
