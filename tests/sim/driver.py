"""One node's shell around `continuation.step`: events in, effects performed in order, handlers let go on.

What an effect asks of the store is `scripts`' business; what it says to clients and other nodes is `node`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from framehold_core import continuation, lease
from framehold_core.call import Call, Phase
from framehold_core.effects import (
    Cancel,
    Deliver,
    Effect,
    Forget,
    Go,
    Kept,
    Lookup,
    Outcome,
    Questions,
    RaiseInDoubt,
    Reason,
    Recorded,
    Refusal,
    Relay,
    Respond,
    Run,
    Ungated,
    Write,
)
from framehold_core.errors import ProtocolError
from framehold_core.events import (
    Acked,
    Diverged,
    Drain,
    Event,
    Evict,
    Expired,
    Flush,
    Intended,
    Overran,
    Recheck,
    Renewed,
    Resulted,
    Retry,
    Stop,
    StoreBack,
)
from framehold_core.lease import Lease
from framehold_core.value import replace
from framehold_core.writes import once_digest

from .handlers import Frame, opened
from .plan import LONG
from .scripts import MAX_ROUND, Scripts, Slot
from .transcript import tell_effects, tell_event

if TYPE_CHECKING:
    from .node import Process

STOPPED = "stopped"
"""What a client hears of a call that an operator ended."""

RESULT_DELAY = 0.02
"""Seconds after which a result is written that no other write has taken along."""

REHEARSED = "rehearsed"
"""Why a frame goes where nothing is kept between rounds."""


class Driver:
    """All calls of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self.slots: dict[str, Slot] = {}
        self._scripts = Scripts(process, self.slots, self.feed)

    def feed(self, slot: Slot, event: Event) -> None:
        """Step the core, do what it says, then let the handler go on for as long as it has something to say."""
        self._step(slot, event)
        if self._world.plan.rehearses and isinstance(event, Acked) and slot.call.phase is Phase.PARKED:
            self._step(slot, Evict(REHEARSED))
        self._go_on(slot)
        if self._process.draining and slot.call.phase is Phase.PARKED:
            self._step(slot, Drain())
        if slot.call.phase is Phase.PARKED:
            self._process.suspects.leave(slot)
        if self._process.suspects.waiting:
            self._scripts.next_suspect()
        self._world.watch.bounds.i9_bounded(slot, self.slots)

    def _go_on(self, slot: Slot) -> None:
        while (frame := slot.frame) is not None and self._process.alive and not frame.asleep:
            following = frame.next_event(slot.call.phase, slot.call.round)
            if following is None:
                self._act(slot, frame)
                return
            if isinstance(following, Intended) and following.draft is None:
                following = replace(following, is_open=self._may_run(slot))
            self._step(slot, following)
            if slot.call.owed:
                self._process.later(RESULT_DELAY, self._flush, slot)

    def _flush(self, slot: Slot) -> None:
        """What a call owes was carried by no other write in time."""
        if self.slots.get(slot.call.id) is slot:
            self.feed(slot, Flush())

    def tick(self) -> None:
        """What happens by the clock: limits, expiry, and the nudge once the store answers again."""
        for slot in list(self.slots.values()):
            if slot.call.phase is Phase.RUNNING and self._process.now() > slot.running_since + MAX_ROUND:
                self.feed(slot, Overran())
            if slot.call.outbox.stalled:
                self.feed(slot, StoreBack())
            if slot.call.phase in (Phase.PARKED, Phase.STRANDED):
                self.feed(slot, Expired())
        self._scripts.next_suspect()

    def renewed(self, held: Lease, anew: bool) -> None:
        """The node lease is valid: whoever waits for an open window is told, and where it began `anew`, all are."""
        for slot in list(self.slots.values()):
            if slot.call.withheld or anew:
                self.feed(slot, Renewed(held))

    def recheck(self, slot: Slot) -> None:
        """The store may have gone back: have this frame compared with it."""
        if self.slots.get(slot.call.id) is slot:
            self.feed(slot, Recheck(self._process.lease))

    def evict(self) -> None:
        """Memory is short."""
        self._signal(Evict())

    def stop(self) -> None:
        """An operator ends every call that may be ended now."""
        for slot in list(self.slots.values()):
            was, frame = slot.call, slot.frame
            self._step(slot, Stop(STOPPED))
            if slot.call is not was:
                self._world.counts["stopped"] += 1
                if frame is not None:
                    self._world.watch.shielded(slot, frame, STOPPED)
                slot.frame = None

    def make_room(self) -> bool:
        """Whether one more call may come in here. The frames that have been parked longest are evicted first."""
        room = self._world.plan.room
        for slot in sorted(self.slots.values(), key=lambda slot: slot.parked_since) if room else ():
            if len(self.slots) >= room:
                self._step(slot, Evict())
        return not room or len(self.slots) < room

    def drain(self) -> None:
        """The node leaves."""
        self._signal(Drain())

    def _signal(self, event: Event) -> None:
        for slot in list(self.slots.values()):
            self.feed(slot, event)

    def _step(self, slot: Slot, event: Event) -> None:
        was = slot.call
        try:
            slot.call, effects = continuation.step(was, event, self._process.now())
        except (ProtocolError, AssertionError) as error:
            self._world.watch.fail(
                "core", f"{slot.call.id} at {self._process.name}: {str(error) or type(event).__name__}"
            )
        self._look_at(slot, was, event, effects)
        if self._world.lines is not None and (effects or slot.call is not was):
            text = f"{was.id} {tell_event(event)} -> {slot.call.phase.name}{tell_effects(effects)}"
            self._world.say(self._process.boot, text)
        if slot.call.phase is Phase.RUNNING is not was.phase:
            slot.running_since = self._process.now()
        if slot.call.phase is Phase.PARKED is not was.phase:
            slot.parked_since = self._process.now()
        self._note(was, slot.call)
        if slot.frame is not None and slot.call.outbox is not was.outbox:
            self._world.watch.effects.goes_on(slot, slot.frame)
        for effect in effects:
            self._perform(slot, effect, effects)
        if slot.call.phase is Phase.IDLE and any(isinstance(effect, Forget) for effect in effects):
            self.slots.pop(slot.call.id, None)
            self._process.suspects.leave(slot)
        if slot.frame is not None and slot.call.epoch != was.epoch:
            self._world.watch.i1_single_owner(slot.call.id, slot.call.epoch, slot.frame.number)

    def _look_at(self, slot: Slot, was: Call, event: Event, effects: tuple[Effect, ...]) -> None:
        """Let the checks see a step before anything of it is done."""
        watch = self._world.watch
        watch.nobody_forgotten(was, event, slot.call, effects)
        replies = (item.response for item in effects if isinstance(item, Respond))
        if isinstance(event, Retry) and any(isinstance(reply, Questions) for reply in replies):
            watch.i3_asked_by_the_owner(slot)
        if isinstance(event, Intended) and slot.frame is not None:
            watch.effects.intended(was, slot.frame, event.key)
        elif isinstance(event, Diverged):
            watch.replays.diverged(slot, was)

    def _note(self, was: Call, call: Call) -> None:
        if call.phase is not was.phase:
            self._world.counts[call.phase.name] += 1
        if len(call.withheld) > len(was.withheld):
            self._world.counts["withheld"] += 1
        if len(call.waiting) > 1 and len(call.waiting) > len(was.waiting):
            self._world.counts["joins"] += 1

    def _perform(self, slot: Slot, effect: Effect, effects: tuple[Effect, ...]) -> None:
        if isinstance(effect, Write):
            self._scripts.write(slot, effect)
        elif isinstance(effect, Respond):
            self._reply(slot, effect, any(isinstance(other, Ungated) for other in effects))
        elif isinstance(effect, Relay):
            self._process.relay(effect, slot.offered)
        elif isinstance(effect, Lookup):
            self._scripts.look(slot)
        elif isinstance(effect, Run):
            self._enter(slot, effect)
        elif slot.frame is not None:
            self._tell_frame(slot, slot.frame, effect)

    def _tell_frame(self, slot: Slot, frame: Frame, effect: Effect) -> None:
        if isinstance(effect, Deliver):
            frame.deliver((item.key, item.value.decode()) for item in effect.answers)
            self._compute(slot, frame)
        elif isinstance(effect, Go):
            self._run_effect(slot, frame, frame.name_of(effect.key))
        elif isinstance(effect, Kept):
            frame.keep(effect.key)
            self._compute(slot, frame)
        elif isinstance(effect, Recorded):
            frame.recorded(effect.keys)
        elif isinstance(effect, RaiseInDoubt):
            frame.doubt(effect.key)
        elif isinstance(effect, Cancel):
            self._world.watch.shielded(slot, frame, effect.cause)
            self._world.watch.heals.dropped(slot, effect.cause)
            self._world.counts[f"frames {effect.cause}"] += 1
            slot.frame = None
        elif isinstance(effect, Forget):
            slot.frame = None

    def _enter(self, slot: Slot, effect: Run) -> None:
        slot.frame = Frame(next(self._world.frames), slot.program, effect.entries, slot.call.phase is Phase.REBUILDING)
        self._world.watch.entered(slot, effect.epoch, slot.frame.number, effect.entries)
        self._world.watch.bounds.i9_alone(slot, self.slots)
        self._compute(slot, slot.frame)

    def _compute(self, slot: Slot, frame: Frame) -> None:
        """Often a handler takes its time before it goes on."""
        rng = self._world.stream(f"handlers {self._process.name}")
        if rng.random() < 0.4 and not frame.asleep:
            frame.asleep = True
            self._process.later(rng.choice((0.01, 0.1)) * rng.random(), self._awake, slot, frame)

    def _awake(self, slot: Slot, frame: Frame) -> None:
        frame.asleep = False
        if slot.frame is frame:
            self._go_on(slot)

    def _timed_out(self, slot: Slot, frame: Frame, name: str) -> None:
        frame.time_out(name)
        if slot.frame is frame:
            self._go_on(slot)

    def _act(self, slot: Slot, frame: Frame) -> None:
        """What a settled handler does to the world: effects that run again, and the poison."""
        while frame.timers:
            wait = 0.4 * self._world.stream("timers").random()
            self._process.later(wait, self._timed_out, slot, frame, frame.timers.pop())
        if frame.sayings:
            self._say(slot, frame)
        if frame.bombs:
            self._process.leave()

    def _say(self, slot: Slot, frame: Frame) -> None:
        """The handler notifies its client: first all results are recorded that it has heard."""
        if frame.owed:
            if slot.call.owed:
                self._step(slot, Flush())
            return
        name = frame.sayings[0]
        self._world.watch.effects.says(slot, frame)
        self._world.say(self._process.boot, f"{slot.call.id} says {name}")
        frame.says(name)
        self._go_on(slot)

    def _may_run(self, slot: Slot) -> bool:
        """Whether the window is open that a frame runs under."""
        held = self._process.lease
        return held.incarnation == slot.call.incarnation and lease.is_open(held, self._process.now())

    def _run_effect(self, slot: Slot, frame: Frame, name: str) -> None:
        if not self._may_run(slot):
            self._world.watch.fail("I5 once", f"{name} is let go outside the window that its frame runs under")
        self._world.watch.i1_runs_as_recorded(slot)
        frame.running.add(name)
        self._begin_effect(slot, frame, name)

    def _begin_effect(self, slot: Slot, frame: Frame, name: str) -> None:
        self._world.watch.effects.began(slot, frame, name)
        self._world.say(self._process.boot, f"{slot.call.id} effect {name} runs")
        value = f"{slot.call.id}:{name}:{frame.number}"
        rng = self._world.stream(f"effects {self._process.name}")
        # Where tokens are short-lived an effect may outlast them: its frame does not expire before it.
        longest = 0.4 if self._world.plan.token_ttl == LONG else 4.0
        took = rng.choice((0.02, 0.02, longest)) * rng.random()
        self._process.later(took, self._end_effect, slot, frame, name, value)

    def _end_effect(self, slot: Slot, frame: Frame, name: str, value: str) -> None:
        self._world.watch.effects.ended(slot.call.id, name)
        if slot.frame is frame:
            frame.pending[name] = value
            self.feed(slot, Resulted(once_digest(name), frame.result_draft(name, slot.call.round)))

    # ---- replies

    def _reply(self, slot: Slot, effect: Respond, ungated: bool) -> None:
        if not self._can_be_opened(slot, effect.response):
            effect = replace(effect, response=Refusal(Reason.LOST))
        answer = effect.response
        event = self._process.open.get(effect.waiter)
        text: object = None
        if isinstance(answer, Questions):
            text = tuple((ask.key, ask.fp) for ask in slot.call.asks)
        elif isinstance(answer, Outcome):
            text = answer.value if answer.sealed is None else opened(answer.sealed)
        if isinstance(answer, Questions | Outcome):
            seen = event.event if event else None
            self._world.watch.replied(slot, seen, answer, text, ungated)
        self._process.answer(slot, effect, text)

    def _can_be_opened(self, slot: Slot, answer: object) -> bool:
        """Whether an outcome that was read from a record was sealed for this call. Any other response can."""
        sealed = answer.sealed if isinstance(answer, Outcome) else None
        return sealed is None or self._world.seals.is_outcome(slot.call.id, sealed)
