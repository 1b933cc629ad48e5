"""One node's shell around `continuation.step`: it performs effects as `framehold_core.writes` describes.

A slot is one call on one process: the core's state, the frame, and the acknowledged journal. An attempt is one sending
of one write; its reply counts only while it is the slot's present attempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from framehold_core import continuation, journal, lease, writes
from framehold_core.call import Call, Phase, standing
from framehold_core.effects import (
    Cancel,
    Deliver,
    Effect,
    Forget,
    Go,
    InDoubt,
    Kept,
    Lookup,
    Op,
    Outcome,
    Questions,
    Relay,
    Run,
    Ungated,
    Write,
)
from framehold_core.effects import Reply as ReplyEffect
from framehold_core.errors import ProtocolError
from framehold_core.events import (
    Acked,
    Claimed,
    Drain,
    Event,
    Evict,
    Expired,
    Found,
    Nudged,
    Overran,
    Resulted,
    StoreDown,
)
from framehold_core.journal import Draft
from framehold_core.requests import Answered, Head, Read, Reply, Request, Stored
from framehold_core.writes import Packed, Terms, once_digest

from .handlers import Frame, opened
from .transcript import tell_effects, tell_event

if TYPE_CHECKING:
    from .node import Process

RECORD_TTL, TOKEN_TTL, MAX_ROUND = 120.0, 60.0, 4.0
STORE_PATIENCE = 0.12
"""Seconds until an unanswered script is given up."""


@dataclass(eq=False, slots=True)
class Attempt:
    """One sending of one write; `believed` are the answers that its frame has resumed with."""

    write: Write
    packed: Packed
    request: Request
    believed: tuple[Answered, ...]
    who: str


class Slot:
    """One call on one process."""

    def __init__(self, process: Process, call: Call, program: str) -> None:
        self.process = process
        self.call = call
        self.program = program
        self.frame: Frame | None = None
        self.log: list[bytes] = []
        self.attempt: Attempt | None = None
        self.lookup = 0
        self.written = False
        self.running_since = 0.0
        boot = process.boot
        head = Head(boot, call.reentrant, "tool", "code", "tools/call", "t", "args", "who")
        self.terms = Terms(head, RECORD_TTL, RECORD_TTL)


class Driver:
    """All calls of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._nonces = count(1)
        self.slots: dict[str, Slot] = {}

    def feed(self, slot: Slot, event: Event) -> None:
        """Step the core, do what it says, then let the handler go on for as long as it has something to say."""
        self._step(slot, event)
        while (frame := slot.frame) is not None and self._process.alive:
            following = frame.next_event(slot.call.phase, slot.call.round)
            if following is None:
                self._act(slot, frame)
                return
            self._step(slot, following)

    def tick(self) -> None:
        """What happens by the clock: limits, expiry, and the nudge once the store answers again."""
        for slot in list(self.slots.values()):
            if slot.call.phase is Phase.RUNNING and self._process.now() > slot.running_since + MAX_ROUND:
                self.feed(slot, Overran())
            if slot.call.stalled:
                self.feed(slot, Nudged())
            if slot.call.phase in (Phase.PARKED, Phase.STRANDED):
                self.feed(slot, Expired())

    def evict(self) -> None:
        """Memory is short."""
        self._signal(Evict())

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
            self._world.watch.fail("core", f"{slot.call.id} at {self._process.name}: {error or type(event).__name__}")
        if self._world.lines is not None:
            text = f"{was.id} {tell_event(event)} -> {slot.call.phase.name}{tell_effects(effects)}"
            self._world.say(self._process.boot, text)
        if slot.call.phase is Phase.RUNNING is not was.phase:
            slot.running_since = self._process.now()
        self._note(was, slot.call)
        for effect in effects:
            self._perform(slot, effect, effects)
        if slot.call.phase is Phase.IDLE and any(isinstance(effect, Forget) for effect in effects):
            self.slots.pop(slot.call.id, None)
        if slot.frame is not None and slot.call.epoch != was.epoch:
            self._world.watch.i1_single_owner(slot.call.id, slot.call.epoch, slot.frame.number)

    def _note(self, was: Call, call: Call) -> None:
        if call.phase is not was.phase:
            self._world.counts[call.phase.name] += 1
        if len(call.waiting) > 1 and len(call.waiting) > len(was.waiting):
            self._world.counts["joins"] += 1

    def _perform(self, slot: Slot, effect: Effect, effects: tuple[Effect, ...]) -> None:
        if isinstance(effect, Write):
            self._write(slot, effect)
        elif isinstance(effect, ReplyEffect):
            self._reply(slot, effect, any(isinstance(other, Ungated) for other in effects))
        elif isinstance(effect, Relay):
            self._process.relay(effect)
        elif isinstance(effect, Lookup):
            self._look(slot)
        elif isinstance(effect, Run):
            self._enter(slot, effect)
        elif slot.frame is not None:
            self._tell_frame(slot, slot.frame, effect)

    def _tell_frame(self, slot: Slot, frame: Frame, effect: Effect) -> None:
        if isinstance(effect, Deliver):
            frame.deliver((item.key, item.value.decode()) for item in effect.answers)
        elif isinstance(effect, Go):
            self._run_effect(slot, frame, frame.name_of(effect.key))
        elif isinstance(effect, Kept):
            frame.keep(effect.key)
        elif isinstance(effect, InDoubt):
            self._world.counts["in doubt"] += 1
            frame.doubt(effect.key)
        elif isinstance(effect, Cancel | Forget):
            slot.frame = None

    def _enter(self, slot: Slot, effect: Run) -> None:
        slot.frame = Frame(next(self._world.frames), slot.program, effect.entries, slot.call.phase is Phase.REBUILDING)
        self._world.watch.entered(slot.call.id, effect.epoch, slot.frame.number, slot.call.reentrant)

    def _act(self, slot: Slot, frame: Frame) -> None:
        """What a settled handler does to the world: effects that run again, and the poison."""
        while frame.reruns:
            self._world.counts["re-runs"] += 1
            self._run_effect(slot, frame, frame.reruns.pop())
        if frame.bombs:
            self._process.leave()

    def _run_effect(self, slot: Slot, frame: Frame, name: str) -> None:
        held = self._process.lease
        if held is None or not lease.is_open(held, self._process.now()):
            if name in frame.pending or name[0] != "i":
                self._world.watch.fail("I5 once", f"{name} is let go while the window is shut")
            self._process.later(0.05, self._again, slot, frame, name)
            return
        self._world.watch.ran(slot, name, name[0] == "i")
        self._world.say(self._process.boot, f"{slot.call.id} effect {name} runs")
        value = f"{slot.call.id}:{name}" if name[0] == "i" else f"{slot.call.id}:{name}:{frame.number}"
        took = 0.02 * self._world.stream(f"effects {self._process.name}").random()
        self._process.later(took, self._ran, slot, frame, name, value)

    def _again(self, slot: Slot, frame: Frame, name: str) -> None:
        if slot.frame is frame:
            self._run_effect(slot, frame, name)

    def _ran(self, slot: Slot, frame: Frame, name: str, value: str) -> None:
        if slot.frame is frame:
            frame.pending[name] = value
            self.feed(slot, Resulted(once_digest(name), frame.result_draft(name, slot.call.round)))

    # ---- the store

    def _seal(self, n: int, draft: Draft) -> bytes:
        return f"{self._process.boot}.{next(self._nonces)}:".encode() + draft.value

    def _write(self, slot: Slot, write: Write) -> None:
        last = slot.attempt
        again = last is not None and last.write is write and last.request.fence.n == slot.call.n
        if again:
            packed = last.packed
        else:
            outcome = f"{next(self._nonces)}:{write.outcome}".encode()
            packed = writes.pack(slot.call, write, self._seal, outcome)
        request = writes.request(slot.call, write, packed, slot.terms, slot.log)
        who = f"{self._process.boot} epoch {slot.call.epoch} n {slot.call.n}"
        attempt = Attempt(write, packed, request, standing(slot.call).answered, who)
        slot.attempt, slot.written = attempt, True
        store = self._world.store
        store.call(self._process, store.apply, (request, attempt), lambda reply: self._answered(slot, attempt, reply))
        self._process.later(STORE_PATIENCE, self._give_up, slot, attempt)

    def _live(self, slot: Slot, attempt: Attempt) -> bool:
        call = slot.call
        held = self.slots.get(call.id) is slot and slot.attempt is attempt
        return held and call.flight is attempt.write and not call.stalled

    def _answered(self, slot: Slot, attempt: Attempt, reply: Reply) -> None:
        if not self._live(slot, attempt):
            return
        held = self._process.lease
        assert held is not None
        self._world.counts[str(reply.verdict)] += 1
        event = writes.event(slot.call, attempt.write, attempt.packed, reply, held, self._process.now())
        if isinstance(event, Claimed):
            self._world.counts["takeovers"] += 1
            slot.log = list(event.stored.journal)
        elif isinstance(event, Acked):
            slot.log += attempt.packed.entries
            self._count(attempt.write.op)
        self.feed(slot, event)

    def _count(self, op: Op) -> None:
        name = {Op.PARK: "parks", Op.VERIFY: "verifies", Op.HEAL: "heals", Op.FINISH: "finishes"}.get(op)
        if name:
            self._world.counts[name] += 1

    def _give_up(self, slot: Slot, attempt: Attempt) -> None:
        held = self._process.lease
        if self._live(slot, attempt):
            is_open = held is not None and lease.is_open(held, self._process.now())
            self.feed(slot, StoreDown(is_open))

    def _look(self, slot: Slot) -> None:
        """Read the record, then the registry: never the other way round, or an incarnation that began in between
        would look gone."""
        slot.lookup += 1
        number, store = slot.lookup, self._world.store

        def first(reply: Reply) -> None:
            if self._looking(slot, number):
                store.call(self._process, store.members, (), lambda members: second(reply.stored, members))

        def second(stored: Stored | None, members: dict[str, lease.NodeRecord]) -> None:
            if self._looking(slot, number):
                self._found(slot, stored, members)

        store.call(self._process, store.apply, (Read(slot.call.id),), first)
        self._process.later(2 * STORE_PATIENCE, self._stop_looking, slot, number)

    def _looking(self, slot: Slot, number: int) -> bool:
        here = self.slots.get(slot.call.id) is slot
        return here and slot.call.phase is Phase.LOOKING and slot.lookup == number

    def _stop_looking(self, slot: Slot, number: int) -> None:
        if self._looking(slot, number):
            self.feed(slot, StoreDown(False))

    def _found(self, slot: Slot, stored: Stored | None, members: dict[str, lease.NodeRecord]) -> None:
        process = self._process
        if not process.may_claim():
            self.feed(slot, StoreDown(False))
            return
        told = process.told(slot.call.held)
        elsewhere = frozenset(members) - {process.name} - {name for name, _ in told}
        evidence = process.evidence(stored.record, members, told) if stored else None
        entries = journal.decode_all(stored.journal) if stored else ()
        process.seen[slot.call.id] = stored.record.seen if stored else None
        self.feed(slot, Found(stored, entries, evidence, elsewhere))

    # ---- replies

    def _reply(self, slot: Slot, effect: ReplyEffect, ungated: bool) -> None:
        answer = effect.answer
        event = self._process.open.get(effect.waiter)
        text: object = None
        if isinstance(answer, Questions):
            text = tuple((ask.key, ask.fp) for ask in slot.call.asks)
        elif isinstance(answer, Outcome):
            text = opened(answer.sealed) if answer.sealed else answer.value
        if isinstance(answer, Questions | Outcome):
            seen = event.event if event else None
            self._world.watch.replied(slot, seen, answer, text, ungated)
        self._process.answer(slot, effect, text)

