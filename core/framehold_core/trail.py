"""The trail of a call: what moved it, where it stood then, and who wrote that. Its record keeps it beyond its end.

The law: a trail is there to look at. No verdict, fence or hash rests on it, and a script writes a step without reading
those before it. That works because each park raises the round by one, and each change of the owner or incarnation the
epoch: the sum of the two is the place of a step, and the place modulo `KEPT` its slot in the record."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

KEPT = 64
"""So many places are kept, the newest. The first step of a longer trail is of a later round or epoch than 1."""


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


class Step(NamedTuple):
    """What was done, the round and the epoch at which the call stood after it, and the node that wrote it. `at` is in
    seconds on the store's clock; `ran` is for how many seconds the round that ended by it had run."""

    step: Moved
    round: int
    epoch: int
    node: str
    at: float
    ran: float = 0.0

    @property
    def place(self) -> tuple[int, int]:
        """A handoff raises nothing and stands behind what it gives away, an end behind both."""
        return self.round + self.epoch, _BEHIND.get(self.step, 0)


def ordered(steps: Iterable[Step]) -> tuple[Step, ...]:
    """A trail of `steps`. Of two in one place the later given counts; what is too far behind the last is gone."""
    placed = {step.place: step for step in steps}
    last, _ = max(placed, default=(0, 0))
    return tuple(placed[place] for place in sorted(placed) if place[0] > last - KEPT)


def followed(trail: tuple[Step, ...], step: Step) -> tuple[Step, ...]:
    """A trail in order and one more step: `ordered`, where it isn't simply the next."""
    if trail and (step.place <= trail[-1].place or step.place[0] >= trail[0].place[0] + KEPT):
        return ordered((*trail, step))
    return (*trail, step)
