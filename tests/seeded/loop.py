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
        self._kept_back: list[Any] = []
        """What processes that were killed would have done."""
        self._scheduled: list[asyncio.TimerHandle] = []
        self._tasks: list[asyncio.Task[Any]] = []
        """All tasks. One that nobody keeps is closed, and runs its `finally`: no process that was killed does."""
        self.set_task_factory(self._keep_task)

    def _keep_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **named: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(coroutine, loop=loop, **named)
        self._tasks.append(task)
        return task

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

    def stands_until(self, owner: str) -> float:
        """When the process takes its next step at the earliest."""
        return self._stands.get(owner, 0.0)

    def kill(self, owner: str) -> None:
        """The process takes no step any more."""
        self._killed.add(owner)
        self._kept_back.append(self._queues.pop(owner, None))

    def is_killed(self, owner: str) -> bool:
        """Whether this process was killed."""
        return owner in self._killed

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run a function as a thread of the present process would: when one is free, and its result comes some time
        after that. A thread of a process that was killed meanwhile gives none."""
        result: asyncio.Future[Any] = self.create_future()
        self.call_later(self._random.choice((0.0, 0.01, 0.3, 4.0)), self._in_thread, result, func, args)
        return result

    def _in_thread(self, result: asyncio.Future[Any], func: Callable[..., Any], args: Any) -> None:
        tell: Callable[[Any], None] = result.set_result
        try:
            found = func(*args)
        except BaseException as error:
            found, tell = error, result.set_exception
        self.call_later(self._random.choice((0.0, 0.01, 0.3, 1.2)), lambda: None if result.done() else tell(found))

    def _call_soon(self, callback: Callable[..., object], args: Any, context: Context | None) -> events.Handle:
        handle = events.Handle(callback, args, self, _owned(context))
        self._queue(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return super().call_at(when, callback, *args, context=_owned(context))

    def _queue(self, handle: events.Handle) -> None:
        owner = handle._context.get(OWNER, "")  # type: ignore[attr-defined]
        (self._kept_back if owner in self._killed else self._queues[owner]).append(handle)

    def _write_to_self(self) -> None:
        """Nobody waits for bytes."""

    def _run_once(self) -> None:
        while True:
            self._take_due()
            stands, now = self._stands, self._passed
            able = [owner for owner, queue in self._queues.items() if queue and stands.get(owner, now) <= now]
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

    def _take_due(self) -> None:
        while self._scheduled and self._scheduled[0].when() <= self._passed:
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            if not timer.cancelled():
                self._queue(timer)

    def _pass(self) -> None:
        """Let time pass until somebody can take a step."""
        ends = [end for owner, end in self._stands.items() if end > self._passed and self._queues.get(owner)]
        if self._scheduled:
            ends.append(self._scheduled[0].when())
        if not ends:
            raise Stuck("nobody waits for anything that will come")
        self._passed = max(self._passed, min(ends))


def _owned(context: Context | None) -> Context | None:
    """A context of the process whose code runs, if it is nobody's yet: code that makes one does not know of `OWNER`."""
    if context is not None and OWNER not in context:
        context.run(OWNER.set, OWNER.get())
    return context
