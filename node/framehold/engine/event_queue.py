"""The worker loop of the engine: events of all calls, stepped one after the other and never nested.

1. an event of a call is fed: by a request, a frame, the store, or a timer
2. it is stepped: the new state replaces the old one, then the effects are performed in order
3. an effect may feed an event at once (a store in memory replies at once): that event waits until 2 is done
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from framehold_core import events as ev

from .slot import Slot

Feed = Callable[[Slot, ev.Event], None]
"""Takes one event of one call."""


class EventQueue:
    """The queue of one node. `attach` gives it the function that steps; before that nothing may be fed."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Slot, ev.Event]] = deque()
        self._stepping = False
        self._step: Feed = _unattached

    def attach(self, step: Feed) -> None:
        """Have `step` called for each event, from now on. It must not raise."""
        self._step = step

    def feed(self, slot: Slot, event: ev.Event) -> None:
        """Queue an event. Then step all queued events, unless this is called within a step."""
        self._waiting.append((slot, event))
        if self._stepping:
            return
        self._stepping = True
        try:
            while self._waiting:
                slot, event = self._waiting.popleft()
                self._step(slot, event)
        finally:
            self._stepping = False


def _unattached(slot: Slot, event: ev.Event) -> None:
    raise RuntimeError(f"no runtime is attached: {type(event).__name__} of call {slot.call.id[:8]} was not stepped")
