"""What was seen in one cell, before anything is computed from it."""

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
    """What some clients saw."""

    turns: list[Turn] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Seen:
    """One cell. Instants are seconds since the epoch; `faults` are those at which something was done.

    Rates are those of who answers at `quick`; who thinks, `slow`, comes in a wave when all is over."""

    began: float
    ended: float
    faults: Sequence[float]
    quick: Noted
    slow: Noted
    lines: Sequence[str]
    """The ledger's."""
    cpu: Mapping[str, float]
    """Seconds by place; 0 where an option has no such process."""
    store_ops: int
    parked: Mapping[str, float] | None = None
    """Bytes for each parked call by place, empty if none came to its question; None where that was not looked at."""

    @property
    def turns(self) -> list[Turn]:
        """Of all clients."""
        return [*self.quick.turns, *self.slow.turns]

    @property
    def calls(self) -> list[Call]:
        """Of all clients."""
        return [*self.quick.calls, *self.slow.calls]
