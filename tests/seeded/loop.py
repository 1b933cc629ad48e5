"""An event loop on virtual time that runs several processes. A seed decides which of them takes the next step.

The law: a callback belongs to the process in whose context it runs (`OWNER`). Within a process callbacks run in the
order in which they were added, as asyncio promises. Between processes there is no order: the seed draws one. Time
passes only while nobody can take a step, and by a microsecond with each step.

    1. process a: adds two callbacks. Process b: adds one
    2. the seed draws a, b, a: each runs one step
    3. nobody has anything to do: time jumps to the next timer

A process that is killed is never stepped again. One that stands still keeps its callbacks until it goes on.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import events
from collections import defaultdict, deque
from collections.abc import Callable
from contextvars import Context, ContextVar
from random import Random
from typing import Any

OWNER: ContextVar[str] = ContextVar("owner", default="")
"""The process whose code runs."""
STEP = 1e-6
"""Seconds that a step takes."""


class Stuck(Exception):
    """Nothing will ever happen again, or too much has."""


class SeededLoop(asyncio.BaseEventLoop):
    """Belongs to one schedule. `random` draws the order of the processes."""

    def __init__(self, random: Random, most_steps: int = 400_000) -> None:
        super().__init__()
        self._random, self._left = random, most_steps
        self._passed = 0.0
        self._queues: dict[str, deque[events.Handle]] = defaultdict(deque)
        self._stands: dict[str, float] = {}
        self._killed: set[str] = set()
        self._scheduled: list[asyncio.TimerHandle] = []

    def time(self) -> float:
        return self._passed

    def context(self, owner: str) -> Context:
        """A context whose callbacks belong to `owner`."""
        made = Context()
        made.run(OWNER.set, owner)
        return made

    def stand_still(self, owner: str, seconds: float) -> None:
        """The process takes no step for a while; its timers wait, too."""
        self._stands[owner] = max(self._stands.get(owner, 0.0), self._passed + seconds)

    def kill(self, owner: str) -> None:
        """The process takes no step any more."""
        self._killed.add(owner)

    def _call_soon(self, callback: Callable[..., object], args: Any, context: Context | None) -> events.Handle:
        handle = events.Handle(callback, args, self, context)
        self._queue(handle)
        return handle

    def _queue(self, handle: events.Handle) -> None:
        self._queues[handle._context.get(OWNER, "")].append(handle)  # type: ignore[attr-defined]

    def _write_to_self(self) -> None:
        """Nobody waits for bytes."""

    def _run_once(self) -> None:
        while True:
            self._take_due()
            able = [owner for owner, queue in self._queues.items() if queue and self._may_step(owner)]
            if able:
                break
            self._pass()
        self._left -= 1
        if self._left < 0:
            raise Stuck("a schedule takes too many steps")
        self._passed += STEP
        # Code that looks how much is to be run on its loop sees its own process alone.
        self._ready = self._queues[self._random.choice(able)]
        handle = self._ready.popleft()
        if not handle.cancelled():
            handle._run()

    def _may_step(self, owner: str) -> bool:
        return owner not in self._killed and self._stands.get(owner, 0.0) <= self._passed

    def _take_due(self) -> None:
        while self._scheduled and self._scheduled[0].when() <= self._passed:
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            if not timer.cancelled():
                self._queue(timer)

    def _pass(self) -> None:
        """Let time pass until somebody can take a step."""
        ends = [end for owner, end in self._stands.items() if end > self._passed and self._queues[owner]]
        if self._scheduled:
            ends.append(self._scheduled[0].when())
        if not ends:
            raise Stuck("nobody waits for anything that will come")
        self._passed = max(self._passed, min(ends))
