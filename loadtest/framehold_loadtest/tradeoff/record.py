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
class Seen:
    """One cell. Instants are seconds since the epoch; `faults` are those at which something was done."""

    began: float
    ended: float
    faults: Sequence[float]
    turns: Sequence[Turn]
    calls: Sequence[Call]
    lines: Sequence[str]
    """The ledger's."""
    cpu: Mapping[str, float]
    """Seconds by place; 0 where an option has no such process."""
    store_ops: int
    parked: Mapping[str, float] = field(default_factory=dict)
    """Bytes for each parked call by place; empty where that was not looked at."""
