"""I5 once, as the world can see it: what the store holds, which effects ran, and what handlers go on with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from framehold_core.call import progress
from framehold_core.requests import Intent, Request, Result, Stored
from framehold_core.writes import once_digest

from .handlers import DOUBT

if TYPE_CHECKING:
    from framehold_core.call import Call

    from .scripts import Attempt, Slot
    from .world import World

Fail = Callable[[str, str], None]
Place = tuple[str, str]
"""A call, and the digest of a key of `once`."""


class EffectWatch:
    """What is known of each effect. `fail` stops the schedule."""

    def __init__(self, world: World, fail: Fail) -> None:
        self._world = world
        self._fail = fail
        self._strict = not world.plan.loses
        self._intents: set[Place] = set()
        self._results: dict[Place, str] = {}
        self._began: set[Place] = set()
        self._ended: set[Place] = set()
        self._behind: dict[Place, set[int]] = {}
        self._heard: dict[Place, str] = {}

    # ---- what the world reports

    def applied(self, request: Request, attempt: Attempt | None) -> None:
        """A script changed a record."""
        if isinstance(request, Intent):
            self._intents.add((request.call, request.key))
        elif isinstance(request, Result) and attempt is not None:
            value = attempt.write.drafts[-1].value.decode()
            self.i5_result_after_effect((request.call, request.key), value)
            self._results[request.call, request.key] = value

    def intended(self, call: Call, key: str) -> None:
        """A handler wants to run an effect, having gone on with these rounds' answers."""
        self._behind.setdefault((call.id, key), {item.round for item in progress(call).answered})

    def began(self, call: str, name: str, idempotent: bool) -> None:
        """An effect begins to run."""
        place = (call, once_digest(name))
        self._world.counts["effects"] += 1
        if not self._strict:
            return
        self.i5_intent_first(place, name)
        self.i5_answers_first(place, name, self._world.store.calls.get(call))
        self.i5_never_again(place, name, idempotent)
        self._began.add(place)

    def ended(self, call: str, name: str) -> None:
        """An effect has run, whether or not its frame is still there."""
        self._ended.add((call, once_digest(name)))

    def goes_on(self, slot: Slot) -> None:
        """A handler asks, intends or ends: nothing of what it learned since has left it before."""
        if self._strict and slot.frame is not None:
            for name, value in slot.frame.known.items():
                if name[0] in "oi":
                    self.i5_same_value((slot.call.id, once_digest(name)), name, value)

    def unrecorded(self, call: str, names: set[str]) -> set[str]:
        """Those of a call's effects whose results are not stored."""
        return {name for name in names if (call, once_digest(name)) not in self._results}

    # ---- the invariant, clause by clause

    def i5_intent_first(self, place: Place, name: str) -> None:
        """No effect runs before its intent is stored."""
        if place not in self._intents:
            self._fail("I5 once", f"{name} of {place[0]} runs before its intent is stored")

    def i5_answers_first(self, place: Place, name: str, stored: Stored | None) -> None:
        """No effect runs before the answers that its handler had then are stored (docs/protocol.md, rule 2)."""
        behind = self._behind.get(place, set())
        missing = behind - set(stored.record.answers) if stored is not None else behind
        if missing:
            self._fail("I5 once", f"{name} of {place[0]} runs before the answers behind it are stored: round {missing}")

    def i5_never_again(self, place: Place, name: str, idempotent: bool) -> None:
        """A recorded effect never runs again; one in doubt only if it was declared idempotent. Where node leases may
        expire early, one that was let go may begin just after a successor has recorded what came of it."""
        if place in self._results and not self._world.plan.rushes:
            self._fail("I5 once", f"{name} of {place[0]} runs again although its result is stored")
        if place in self._began and not idempotent:
            self._fail("I5 once", f"{name} of {place[0]} runs twice and is not idempotent")

    def i5_result_after_effect(self, place: Place, value: str) -> None:
        """A result is stored only of an effect that has run."""
        if self._strict and value != DOUBT and place not in self._ended:
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
