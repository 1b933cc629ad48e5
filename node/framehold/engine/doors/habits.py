"""Learns which tools use the store, from the calls that this process has served.

Nothing else tells it: a handler asks wherever it awaits, and the code that asks may be in a library. While the store
can't be written, a node enters no new handler that needs it: its effects would happen, then its first question would
fail. What is not known is decided for safety (docs/protocol.md, rule 6):

    a mark of the author (`reentrant`, `options`)        it needs the store: the marks are about questions and effects
    it asked, or used `once`, in this process            it needs the store
    it has ended in this process and did neither         it does not
    it has no way to its client                          it does not: it is not async, or takes no context
    anything else                                        it needs the store
"""

from __future__ import annotations

from framehold_core import events as ev
from framehold_core.ending import COMPLETED

from ..observer import Observer, RequestEnd
from ..replies import Ended
from ..slot import Arrival, Slot

MAX_NAMES = 1000
"""How many names of tools are kept of each kind. Some servers take any name from a client."""


class Habits(Observer):
    """The tools of one process that used the store, and those that ended without it, by name."""

    def __init__(self) -> None:
        self._with: set[str] = set()
        self._without: set[str] = set()

    def uses_store(self, tool: str) -> bool | None:
        """Whether a tool has used the store; None if that was not seen yet."""
        if tool in self._with:
            return True
        return False if tool in self._without else None

    def answered(self, slot: Slot, arrival: Arrival, answer: RequestEnd, seconds: float) -> None:
        """Learn from a round. A retry of a call that has ended elsewhere says nothing, nor does a handler that
        failed: it may not have come to its question."""
        if slot.head is not None:
            if slot.handler.tool not in self._with:
                _add(self._with, slot.tool)
        elif type(arrival.event) is ev.Start and type(answer) is Ended and _completed(slot, answer):
            _add(self._without, slot.tool)


def _completed(slot: Slot, answer: Ended) -> bool:
    return slot.handler.ending(answer.outcome) == COMPLETED


def _add(names: set[str], name: str) -> None:
    if len(names) < MAX_NAMES:
        names.add(name)
