"""Suspects: calls that may have ended the processes that they ran in (docs/protocol.md, rule 27).

The record of a parked call does not show whether its answers had arrived when its process ended. So the calls of one
ended process are taken over together. A call that was taken over by a process which has ended too, and had not moved on
there, did run in it: it is a suspect. `attempts` of its record is above 1 once it is claimed.

A node enters its suspects one at a time, and after the calls that are none. When the process ends then, this is held
against one suspect, and not against those that waited.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from .requests import Evidence, Record

PATIENCE = 30.0
"""Seconds for which a suspect waits to be entered, and for which the others wait for the one that was entered."""

CallT = TypeVar("CallT")


def has_died(record: Record, evidence: Evidence, boot: str) -> bool:
    """Whether a claim by the process `boot` shows that the process which ran the call is gone. A process that released
    the call, or that dropped its frame and claims the call again, has survived its handler (rule 15, decision 015)."""
    survived = evidence is Evidence.OWNER and record.head.boot == boot
    return not survived and evidence is not Evidence.RELEASED


def is_suspect(record: Record, evidence: Evidence, boot: str) -> bool:
    """Whether a call that the process `boot` is about to claim is a suspect."""
    return record.attempts + has_died(record, evidence, boot) > 1


class Suspects(Generic[CallT]):
    """The suspects of one node. Times are in seconds on the node's clock; `patience` is as `PATIENCE`."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._waiting: deque[CallT] = deque()
        self._entered: CallT | None = None
        self._until = 0.0

    @property
    def waiting(self) -> int:
        """How many suspects wait."""
        return len(self._waiting)

    def waits(self, call: CallT) -> bool:
        """Whether this suspect waits for its turn."""
        return call in self._waiting

    def has_turn(self, call: CallT) -> bool:
        """Whether this suspect may be claimed and entered now."""
        return call is self._entered

    def join(self, call: CallT) -> None:
        """A suspect waits for its turn, behind those that came before it."""
        if call not in self._waiting:
            self._waiting.append(call)

    def leave(self, call: CallT) -> None:
        """A call has moved on, or ended, or has no frame here, or nobody waits for it any more."""
        if call is self._entered:
            self._entered = None
        elif call in self._waiting:
            self._waiting.remove(call)

    def next(self, now: float, others: bool) -> CallT | None:
        """The suspect whose turn begins; None if none may be entered. `others`: calls that are no suspects are being
        taken over."""
        if others or not self._waiting or (self._entered is not None and now < self._until):
            return None
        self._entered, self._until = self._waiting.popleft(), now + self._patience
        return self._entered
