"""Watches the event loop: how late it is, and what it stood in where it was late by more than a second.

The law: it costs nothing while the loop is on time. A task of the loop wakes four times a second, and a thread about
once a second; each only compares times. Nobody looks at a stack before the loop is late.

    1. the task notes when it is due next; how late it woke is reported (`late`)
    2. the loop stands: the task is overdue by LIMIT. The thread looks at the stack of the loop's thread, then once a
       second; most of its looks decide which code it was
    3. the loop goes on: the task notes how late it woke, and keeps the stall in `last` at once, since who asked
       meanwhile is answered next. The thread logs it in one line

A call that keeps the interpreter (the GIL) stops the thread as well. The thread gets the interpreter when that call
ends, before the loop goes on, and looks then. If the whole process was stopped, the thread finds the loop waiting, in
the watch's own task, or on time again: then no code is to blame.

A loop that stands for longer than LONG is logged while it stands, since its process may be killed for it.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from operator import itemgetter
from types import FrameType
from typing import NamedTuple

from framehold_core.clock import Clock
from framehold_fleet.models.nodes import writes_log

from .stacks import CodePlace, frames_above, judge, loop_frame

logger = logging.getLogger(__name__)

PAUSE = 0.25
"""Seconds between two measurements of the loop."""
LIMIT = 1.0
"""Seconds by which the loop is late when it counts as standing; also the seconds between two looks."""
LONG = 10.0
"""Seconds after which a loop that still stands is logged."""
MAX_PLACES = 20
"""How many functions of a stack are kept, the innermost ones."""

_STOOD = "the event loop stood for %.1f s in %s"
_STANDS = "the event loop has been standing for %.1f s, and still stands, in %s"
_MEANWHILE = (
    ": nothing else ran on this node meanwhile, not even its heartbeat; await there, or run it in a thread "
    "(anyio.to_thread.run_sync)"
)
_LOG_UNREAD = ": it wrote its log, which nobody read fast enough; look at what reads its stderr"
_NO_CODE = "no code of this process: it was stopped, or got no processor"


class Culprit(NamedTuple):
    """The code in which a loop stands: the `tool` of the call that it belongs to (empty: none), the place as
    `module:function:line`, with its `file` and `line`; and the `stack`, the innermost place first. All are empty if no
    code runs."""

    tool: str = ""
    where: str = ""
    file: str = ""
    line: int = 0
    stack: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.where:
            return _NO_CODE
        place = f"{self.where} ({self.file}:{self.line})"
        return f"tool {self.tool!r}, at {place}" if self.tool else place


class Stall(NamedTuple):
    """A time in which the loop stood. It began `at` (seconds since 1970); the rest is as in `Culprit`."""

    at: float
    seconds: float
    tool: str
    where: str
    file: str
    line: int
    stack: tuple[str, ...]


class StallWatch:
    """Watches one event loop. `tool_of` returns the tool that code with these context variables belongs to, and ""
    without one. `clock` is the node's clock. `late` gets the seconds of each measurement by which the loop was late."""

    def __init__(
        self,
        tool_of: Callable[[contextvars.Context], str],
        clock: Clock,
        late: Callable[[float], None] | None = None,
        limit: float = LIMIT,
    ) -> None:
        self._tool_of, self._clock, self._late, self._limit = tool_of, clock, late, limit
        self.last: Stall | None = None
        """The last stall."""
        self._seen = Counter[Culprit]()
        """How often the thread has seen which code in the present stall."""
        self._due = self._stood = self._began = 0.0

    async def watch(self, handlers: frozenset[str] = frozenset()) -> None:
        """Watch the running loop until cancelled. It must run as a task of its own. `handlers` are the top-level
        packages that handlers come from (`stacks.authors`)."""
        here, loop = inspect.currentframe(), asyncio.get_running_loop()
        looks = _Looks(loop, loop_frame(here and here.f_back), handlers, self._tool_of)
        del here
        closed = threading.Event()
        self._due, self._stood = time.monotonic() + PAUSE, 0.0
        thread = threading.Thread(target=self._run, args=(closed, looks), name="framehold-stalls", daemon=True)
        thread.start()
        try:
            while True:
                await asyncio.sleep(PAUSE)
                self._woke(time.monotonic())
        finally:
            closed.set()
            thread.join(self._limit)

    def _woke(self, now: float) -> None:
        late = max(0.0, now - self._due)
        if late >= self._limit:
            self._stood, self._began = late, self._clock.time() - late
            if self._seen:
                self.last = self._stall()
        self._due = now + PAUSE
        if self._late is not None:
            self._late(late)

    def _run(self, closed: threading.Event, looks: _Looks) -> None:
        seen, warned = self._seen, False
        while looks.lives:
            left = self._due + self._limit - time.monotonic()
            if closed.wait(left if left > 0 else self._limit):
                if self._stood:
                    self._ended()
                return
            late = time.monotonic() - self._due
            if late >= self._limit:
                seen[looks.look()] += 1
                if late >= LONG and not warned:
                    warned = True
                    logger.error(_STANDS + _advice(_most(seen)), late, _most(seen))
            elif self._stood:
                self._ended()
                seen.clear()
                warned = False

    def _stall(self) -> Stall:
        return Stall(self._began, self._stood, *_most(self._seen))

    def _ended(self) -> None:
        self.last = stall = self._stall()
        self._stood = 0.0
        culprit = Culprit(*stall[2:])
        about = {"tool": culprit.tool} if culprit.tool else {}
        text = _STOOD + _advice(culprit) if culprit.where else _STOOD
        logger.warning(text, stall.seconds, culprit, extra={"seconds": round(stall.seconds, 3), **about})


def _advice(culprit: Culprit) -> str:
    return _LOG_UNREAD if writes_log(culprit.where, culprit.stack) else _MEANWHILE


_WATCH = StallWatch.watch.__code__


def _most(seen: Counter[Culprit]) -> Culprit:
    """The code that was seen most often; the first of several. Another thread may count meanwhile."""
    return max(tuple(seen.items()), key=itemgetter(1), default=(Culprit(), 0))[0]


class _Looks:
    """Looks at the thread of `loop`. `base` is the frame that runs the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        base: FrameType | None,
        handlers: frozenset[str],
        tool_of: Callable[[contextvars.Context], str],
    ) -> None:
        self._loop, self._base, self._handlers, self._tool_of = loop, base, handlers, tool_of
        self._ident = threading.get_ident()
        self.lives = True

    def look(self) -> Culprit:
        """The code that runs in the loop now."""
        frame = sys._current_frames().get(self._ident)
        self.lives = frame is not None
        raws = frames_above(frame, self._base)
        del frame
        if any(code is _WATCH for code, _, _ in raws):
            return Culprit()
        places = [CodePlace.of(raw) for raw in raws]
        name = judge(places, self._handlers).where
        place = next((place for place in places if place.name == name), None)
        if place is None:
            return Culprit()
        return Culprit(self._tool(), place.where, place.file, place.at, tuple(at.where for at in places[:MAX_PLACES]))

    def _tool(self) -> str:
        task = asyncio.current_task(self._loop)
        variables = None if task is None else _context(task)
        return "" if variables is None else self._tool_of(variables)


def _context(task: asyncio.Task[object]) -> contextvars.Context | None:
    """The context variables of a task. Before Python 3.12 only the garbage collector knows them."""
    if sys.version_info >= (3, 12):
        return task.get_context()
    return next((item for item in gc.get_referents(task) if isinstance(item, contextvars.Context)), None)
