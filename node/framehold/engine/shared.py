"""The objects that the parts of one node's engine share. `app.py` builds them first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from framehold_core.clock import Clock

from .loop import Loop
from .observer import Observers
from .table import CallTable
from .tasks import Tasks


@dataclass(frozen=True, slots=True)
class Shared:
    """The shared objects of one node. `counts` has how often each thing happened, by name: `entered`, `parked`,
    `resumed`, `rebuilt`, `fenced`, ... `clock` is the only source of time and randomness."""

    table: CallTable
    tasks: Tasks
    counts: Counter[str]
    observers: Observers
    loop: Loop
    clock: Clock
