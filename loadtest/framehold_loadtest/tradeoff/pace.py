"""The durations and the numbers of a quick run and of a full one."""

from __future__ import annotations

from dataclasses import dataclass

ROUNDS = 3
"""The rounds of each call: two questions."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a call is like: its rounds, the bytes that its tool keeps between them, and the seconds that a user who
    answers at once takes for each answer."""

    rounds: int = ROUNDS
    size: int = 0
    think: float = 0.0


PLAIN = Shape()
"""The calls of all conditions."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Times in seconds. Each cell is measured in so many `turns`. `users` answer at once; each of the `thinkers` makes
    one call: half of them answer while the fault lasts, spread over `spread`, the others when the last fault is over.
    `steady` is a cell without a fault; `lead` comes before the first fault and `tail` after the last; a killed node is
    `away` before it is started again; the store stands still for `pause`. `parked` calls are held to see what they
    weigh.

    A series has `series_turns`; each of its points lasts `point`, and `heavy` calls are parked to see what their state
    weighs."""

    turns: int
    nodes: int
    users: int
    thinkers: int
    lease_ttl: float
    patience: float
    warm: float
    steady: float
    lead: float
    away: float
    spread: float
    pause: float
    tail: float
    parked: int
    series_turns: int
    point: float
    heavy: int


FULL = Pace(
    turns=5,
    nodes=3,
    users=12,
    thinkers=60,
    lease_ttl=5.0,
    patience=30.0,
    warm=1.5,
    steady=5.0,
    lead=1.5,
    away=7.0,
    spread=2.0,
    pause=3.0,
    tail=3.0,
    parked=1000,
    series_turns=3,
    point=2.5,
    heavy=400,
)
QUICK = Pace(
    turns=3,
    nodes=2,
    users=6,
    thinkers=20,
    lease_ttl=1.5,
    patience=10.0,
    warm=0.2,
    steady=0.8,
    lead=0.5,
    away=2.0,
    spread=0.5,
    pause=0.5,
    tail=0.4,
    parked=100,
    series_turns=1,
    point=0.5,
    heavy=50,
)
