"""I5 once, as the world can see it: what the store holds, which effects ran, and what handlers go on with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from framehold_core.call import progress
from framehold_core.effects import Op
from framehold_core.journal import EntryKind
from framehold_core.requests import Commit, Intent, Request, Result
from framehold_core.writes import once_digest

from .handlers import DOUBT, is_fragile

if TYPE_CHECKING:
    from framehold_core.call import Call
    from framehold_core.effects import Write

    from .handlers import Frame
    from .scripts import Attempt, Slot
    from .world import World

Fail = Callable[[str, str], None]
GOES_ON = (Op.PARK, Op.INTEND, Op.FINISH)
"""Writes that say what a handler did next. They rest on all that it has learned."""

Place = tuple[str, str]
"""A call, and the digest of a key of `once`."""


class EffectWatch:
    """What is known of each effect. `fail` stops the schedule."""

    def __init__(self, world: World, fail: Fail) -> None:
        self._world = world
        self._fail = fail
        self._intents: set[Place] = set()
        self._answered: dict[str, set[int]] = defaultdict(set)
        """The rounds of each call whose answers are stored."""
        self._results: dict[Place, str] = {}
        self._began: set[Place] = set()
        self._ended: set[Place] = set()
        self._behind: dict[tuple[int, str], set[int]] = {}
        """The rounds on whose answers a frame had gone on when it wanted an effect, by the frame's number and the key.
        A frame that is rebuilt elsewhere may come to the effect without them, by a timer."""
        self._heard: dict[Place, str] = {}
        self._known: dict[int, tuple[Write, dict[str, str]]] = {}
        """What a handler knew of its effects when a write of it was made, by the identity of the write."""
        self._arguments: dict[tuple[str, str, str], str] = {}

    # ---- what the world reports

    def applied(self, request: Request, attempt: Attempt | None) -> None:
        """A script changed a record."""
        if isinstance(request, Intent):
            self._intents.add((request.call, request.key))
        if isinstance(request, Commit | Intent | Result) and request.answered is not None:
            self._answered[request.call].add(request.answered.round)
        if attempt is None:
            return
        for draft in attempt.write.drafts:
            if draft.kind in (EntryKind.RESULT, EntryKind.EFFECT):
                place, value = (request.call, once_digest(draft.key)), draft.value.decode()
                self.i5_result_after_effect(place, value)
                self._results[place] = value
        _, known = self._known.get(id(attempt.write), (None, {}))
        for name, value in known.items():
            if not self._world.watch.holds(request.call, "I5"):
                break
            place = (request.call, once_digest(name))
            if any(done.key == place[1] for done in attempt.write.results):
                self._results[place] = value
            self.i5_same_value(place, name, value)

    def intended(self, call: Call, frame: Frame, key: str) -> None:
        """A handler wants to run an effect, having gone on with these rounds' answers."""
        self._behind.setdefault((frame.number, key), {item.round for item in progress(call).answered})

    def began(self, slot: Slot, frame: Frame, name: str) -> None:
        """An effect begins to run."""
        call = slot.call.id
        place = (call, once_digest(name))
        self._world.counts["effects"] += 1
        if not self._world.watch.holds(call, "I5"):
            return
        if name[0] == "o":
            self.i5_intent_first(place, name)
        else:
            self._world.counts["re-runs"] += place in self._began
            self.i5_one_key_one_set_of_arguments(slot, frame, name)
        self.i5_answers_first(frame, name, self._answered[call])
        self.i5_never_again(place, name, name[0] == "i")
        self._began.add(place)

    def ended(self, call: str, name: str) -> None:
        """An effect has run, whether or not its frame is still there."""
        self._ended.add((call, once_digest(name)))

    def goes_on(self, slot: Slot, frame: Frame) -> None:
        """A handler asks, intends or ends: the write that was made of it rests on all that the handler knows."""
        outbox = slot.call.outbox
        write = outbox.queue[-1] if outbox.queue else outbox.in_flight
        if (
            self._world.watch.holds(slot.call.id, "I5")
            and write is not None
            and write.op in GOES_ON
            and id(write) not in self._known
        ):
            self._known[id(write)] = (write, {name: known for name, known in frame.known.items() if name[0] in "oi"})

    def says(self, slot: Slot, frame: Frame) -> None:
        """A notification leaves the node. It rests on all that the handler knows."""
        self._leaves(slot.call.id, frame.known)

    def outcome_leaves(self, slot: Slot) -> None:
        """An outcome leaves the node before the write of it is acknowledged."""
        _, known = self._known.get(id(slot.call.outbox.in_flight), (None, {}))
        self._leaves(slot.call.id, known)

    def _leaves(self, call: str, known: Mapping[str, str]) -> None:
        for name, value in known.items():
            if name[0] in "oi" and self._world.watch.holds(call, "I5"):
                self.i5_same_value((call, once_digest(name)), name, value)

    def unrecorded(self, call: str, names: set[str]) -> set[str]:
        """Those of a call's effects whose results are not stored."""
        return {name for name in names if (call, once_digest(name)) not in self._results}

    # ---- the invariant, clause by clause

    def i5_intent_first(self, place: Place, name: str) -> None:
        """No effect runs before its intent is stored."""
        if place not in self._intents:
            self._fail("I5 once", f"{name} of {place[0]} runs before its intent is stored")

    def i5_one_key_one_set_of_arguments(self, slot: Slot, frame: Frame, name: str) -> None:
        """An effect that may run again has the same arguments each time: all that they are made of was recorded before
        it ran (docs/protocol.md, rule 2). Other code may have others, and so may a handler that a timer decides for."""
        if is_fragile(slot.program):
            return
        arguments = frame.arguments(name)
        if self._arguments.setdefault((slot.call.id, slot.program, name), arguments) != arguments:
            self._fail("I5 once", f"{name} of {slot.call.id} runs again under its key, with other arguments")

    def i5_answers_first(self, frame: Frame, name: str, stored: set[int]) -> None:
        """No effect runs before the answers that its handler had then are stored (docs/protocol.md, rule 2)."""
        missing = self._behind.get((frame.number, once_digest(name)), set()) - stored
        if missing:
            self._fail("I5 once", f"{name} runs before the answers behind it are stored: round {missing}")

    def i5_never_again(self, place: Place, name: str, idempotent: bool) -> None:
        """A recorded effect never runs again; one in doubt only if it was declared idempotent. Where node leases may
        expire early, one that was let go may begin just after a successor has recorded what came of it."""
        if place in self._results and not self._world.plan.rushes:
            self._fail("I5 once", f"{name} of {place[0]} runs again although its result is stored")
        if place in self._began and not idempotent:
            self._fail("I5 once", f"{name} of {place[0]} runs twice and is not idempotent")

    def i5_result_after_effect(self, place: Place, value: str) -> None:
        """A result is stored only of an effect that has run."""
        if value != DOUBT and self._world.watch.holds(place[0], "I5") and place not in self._ended:
            self._fail("I5 once", f"a result of {place[0]} is stored before its effect has run: {value}")

    def i5_same_value(self, place: Place, name: str, value: str) -> None:
        """What a handler goes on with is what is recorded, in every frame of every epoch; where nothing is recorded
        every frame is in doubt."""
        if value != self._results.get(place, DOUBT):
            self._fail("I5 once", f"{place[0]} goes on with {value} for {name}, not with what is recorded")
        if value == DOUBT and place not in self._heard:
            self._world.counts["in doubt"] += 1
        if self._heard.setdefault(place, value) != value:
            self._fail("I5 once", f"{place[0]} goes on with {value} for {name}, and went on with another value before")
