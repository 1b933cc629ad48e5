"""The durations and the numbers of a quick run and of a full one."""

from __future__ import annotations

from dataclasses import dataclass

ROUNDS = 3
"""The rounds of each call: two questions."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Times in seconds. `users` answer at once; each of the `thinkers` makes one call, and answers when the last fault
    is over. `steady` is a cell without a fault; `lead` comes before the first fault and `tail` after the last; a killed
    node is `away` before it is started again; the store stands still for `pause`. `window` is what rates are counted
    over. `parked` calls are held to see what they weigh."""

    nodes: int
    users: int
    thinkers: int
    lease_ttl: float
    patience: float
    warm: float
    steady: float
    lead: float
    away: float
    pause: float
    tail: float
    window: float
    parked: int


FULL = Pace(
    nodes=3,
    users=12,
    thinkers=60,
    lease_ttl=5.0,
    patience=30.0,
    warm=2.0,
    steady=15.0,
    lead=5.0,
    away=7.0,
    pause=3.0,
    tail=6.0,
    window=1.0,
    parked=2000,
)
QUICK = Pace(
    nodes=2,
    users=6,
    thinkers=20,
    lease_ttl=1.5,
    patience=10.0,
    warm=0.2,
    steady=0.8,
    lead=0.5,
    away=0.3,
    pause=0.5,
    tail=0.4,
    window=0.25,
    parked=200,
)
