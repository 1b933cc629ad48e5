"""What was seen in one turn of a cell, before anything is computed from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from framehold_loadtest.notes import Call


@dataclass(frozen=True, slots=True)
class Turn:
    """One round as its client saw it. `at` is when it was answered, or given up, in seconds since the epoch; `seconds`
    count from its first try. `sent`, `received` and `token` are bytes; the token is what the reply asks to keep."""

    round: int
    at: float
    seconds: float
    sent: int
    received: int
    token: int
    answered: bool
    refused: int = 0
    """The tries before the last one."""


@dataclass(frozen=True, slots=True)
class Noted:
    """What some clients saw. `waits` has for each call that came to its end how many seconds its user waited for it:
    from the first try to begin it, without the time in which the user thought."""

    turns: list[Turn] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Cores:
    """How the cores of the machine were shared in one turn. `stretch` is how many times as long as their work the
    measured processes took for it; `others` is how many cores other programs had on average."""

    stretch: float = 1.0
    others: float = 0.0


@dataclass(frozen=True, slots=True)
class Seen:
    """One turn of a cell. Instants are seconds since the epoch; `spans` are from when until when something was done
    that a call could be hit by.

    Rates are those of who answers at `quick`; who thinks, `slow`, comes in waves."""

    began: float
    ended: float
    spans: Sequence[tuple[float, float]]
    quick: Noted
    slow: Noted
    lines: Sequence[str]
    """The ledger's."""
    cpu: Mapping[str, float]
    """Seconds by place; 0 where an option has no such process."""
    store_ops: int
    loses: bool = False
    """Whether replies to those who think were lost, and to nobody else."""
    cores: Cores = Cores()
    parked: Mapping[str, float] | None = None
    """Bytes for each parked call by place, empty if none came to its question; None where that was not looked at."""

    @property
    def faults(self) -> list[float]:
        """When something was done."""
        return [start for start, _ in self.spans]

    @property
    def turns(self) -> list[Turn]:
        """Of all clients."""
        return [*self.quick.turns, *self.slow.turns]

    @property
    def calls(self) -> list[Call]:
        """Of all clients."""
        return [*self.quick.calls, *self.slow.calls]

    @property
    def waits(self) -> list[float]:
        """Of all clients."""
        return [*self.quick.waits, *self.slow.waits]
