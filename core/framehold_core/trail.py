"""The trail of a call: its steps, each with what was done, where the call stood then, and which node wrote it.
The record keeps the trail beyond the end of the call.

The law: a trail is there to look at. No verdict, fence or hash rests on it, and a script writes a step without reading
the steps before it. That works because each park raises the round by one, and each change of the owner or incarnation
raises the epoch by one: the sum of the two is the place of a step, and the place modulo `KEPT` is its slot in the
record."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from .value import Value

KEPT = 64
"""How many places of a trail are kept: the newest. A longer trail begins at a later round or epoch than 1."""


class Moved(StrEnum):
    """What a write did to a call. Intents and results move nothing."""

    PARKED = "parked"
    CLAIMED = "claimed"
    VERIFIED = "verified"
    HEALED = "healed"
    RELEASED = "released"
    FINISHED = "finished"
    LOST = "lost"


_BEHIND = {Moved.RELEASED: 1, Moved.FINISHED: 2, Moved.LOST: 2}


class TrailStep(Value):
    """What was done, the round and the epoch at which the call stood after it, and the node that wrote it. `at` is in
    seconds on the store's clock. Where a round ended by this step, `ran` is for how many seconds it had run. `kept`
    says of a claim that the node goes on with kept code (docs/protocol.md, rule 28)."""

    step: Moved
    round: int
    epoch: int
    node: str
    at: float
    ran: float = 0.0
    kept: bool = False

    @property
    def place(self) -> tuple[int, int]:
        """Where the step stands in its trail. A handoff and an end raise neither round nor epoch: the second number
        puts a handoff behind the step before it, and an end behind both."""
        return self.round + self.epoch, _BEHIND.get(self.step, 0)


def ordered(steps: Iterable[TrailStep]) -> tuple[TrailStep, ...]:
    """A trail of `steps` in order. Of two steps in one place the later given counts. Steps that are `KEPT` places or
    more behind the last are left out."""
    placed = {step.place: step for step in steps}
    last, _ = max(placed, default=(0, 0))
    return tuple(placed[place] for place in sorted(placed) if place[0] > last - KEPT)


def followed(trail: tuple[TrailStep, ...], step: TrailStep) -> tuple[TrailStep, ...]:
    """`trail`, which is in order, and one more step."""
    if trail:
        place, first = step.place, trail[0]
        if place <= trail[-1].place or place[0] >= first.round + first.epoch + KEPT:
            return ordered((*trail, step))
    return (*trail, step)
