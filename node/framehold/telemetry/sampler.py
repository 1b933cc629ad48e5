"""Samples what an event loop is busy with: a thread looks at the stack of the loop's thread about ten times a second.

The law: it costs nothing until it is used. The thread starts with the first request for a profile. It ends LINGER
seconds after the last request, or with its node. It keeps the samples of the last minute, at most MAX_LOOKS.

A Python thread can look at another one only while that one has released the interpreter (the GIL), and a thread
releases it by itself when it waits. So a loop that works in bursts of a millisecond would always be seen waiting.
Therefore:

1. the sampling thread sleeps; that is most of its time
2. it sleeps once more, for a few milliseconds. For this time the switch interval is microseconds instead of the usual
   5 ms, so that the thread gets the interpreter in the middle of the loop's work; then it looks
3. each look stands for the time since the look before. A call that keeps the interpreter for a second releases it when
   it ends: then the sampling thread wakes too late, looks at once, and this look stands for the second
4. the processor time of the loop's thread, by its own clock, counts as busy even if the thread was seen waiting
"""

from __future__ import annotations

import asyncio
import inspect
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import NamedTuple

from framehold_store import system_clock

from .stacks import IDLE, OTHER, PARTS, Place, Raw, frames_above, judge, loop_frame

WINDOW_SECONDS = 60.0
"""Seconds that a profile covers."""
LINGER = 30.0
"""Seconds after the last request for a profile, when the thread ends."""
MAX_LOOKS = 2048
LONG_SLEEP, SHORT_SLEEP = (0.050, 0.150), (0.001, 0.010)
"""Bounds in seconds of the long sleep and of the short one. They are random, so that regular work is not missed."""
SWITCH_INTERVAL = 2e-4
"""The switch interval in seconds before a look: then a thread must release the interpreter."""

LATE_SECONDS = 0.02
"""If the long sleep was too long by more seconds than this, a call has kept the interpreter."""

_switch_lock = threading.Lock()
"""The switch interval is a setting of the whole process: samplers of several nodes take turns."""


class Look(NamedTuple):
    """One look at the thread, `at` a time in seconds. It stands for the last `seconds`, of which the thread used `cpu`
    seconds of the processor. `part` and `where` are as in `stacks.Judgement`."""

    at: float
    seconds: float
    cpu: float
    part: str
    where: str


class Seen(NamedTuple):
    """A profile of the last minute: over how many `seconds`, from how many looks (`samples`). `parts` has each part's
    share of the time; they sum up to 1. `hot` has each function's share of the busy time, the largest first. Both are
    empty without a look."""

    seconds: float
    samples: int
    parts: dict[str, float]
    hot: list[tuple[str, float]]


class Sampler:
    """Samples the thread of the event loop on which `ask` is called. `handlers` returns the top-level packages that
    handlers come from."""

    def __init__(self, handlers: Callable[[], frozenset[str]], now: Callable[[], float] = system_clock.now) -> None:
        self._handlers, self._now = handlers, now
        self._looks: deque[Look] = deque(maxlen=MAX_LOOKS)
        self._lock = threading.Lock()
        self._until = 0.0
        self._ended = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.thread: threading.Thread | None = None
        """The sampling thread while it runs."""

    def ask(self) -> Seen:
        """The profile so far. Sampling goes on for LINGER seconds, or begins."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self._until = self._now() + LINGER
            looks = self._looks_at(loop)
        if not looks:
            # In a callback there are only frames of the loop below: they are found from there.
            loop.call_soon(self._begin, loop)
        since = self._now() - WINDOW_SECONDS
        return summary([look for look in tuple(self._looks) if look.at >= since] if looks else ())

    def close(self) -> None:
        """Stop sampling until `ask` is called again. Waits for the thread's end: a few milliseconds."""
        with self._lock:
            thread, self.thread, self._loop, self._until = self.thread, None, None, 0.0
            self._ended.set()
        if thread is not None and thread.ident is not None:
            thread.join()

    def _looks_at(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether a thread samples this loop. A thread of another loop, or one that failed to start, does not."""
        return self.thread is not None and self.thread.is_alive() and self._loop is loop

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        here = inspect.currentframe()
        watched = _WatchedThread(threading.get_ident(), loop_frame(here and here.f_back), self._handlers(), self._now)
        with self._lock:
            if self._looks_at(loop) or self._now() >= self._until:
                return
            self._ended.set()
            self._ended, self._looks, self._loop = threading.Event(), deque(maxlen=MAX_LOOKS), loop
            self.thread = threading.Thread(
                target=self._run, args=(self._ended, watched, self._looks), name="framehold-sampler", daemon=True
            )
            self.thread.start()

    def _run(self, ended: threading.Event, watched: _WatchedThread, kept: deque[Look]) -> None:
        try:
            while watched.lives:
                pause, began = random.uniform(*LONG_SLEEP), time.monotonic()
                if ended.wait(pause) or not self._is_wanted(ended):
                    break
                if time.monotonic() - began > pause + LATE_SECONDS:
                    # The call that kept the interpreter has just released it: it is still on the stack.
                    kept.extend(watched.seen(watched.stack()))
                kept.extend(watched.seen(_look_while_running(watched)))
        finally:
            with self._lock:
                self._forget_thread(ended)

    def _is_wanted(self, ended: threading.Event) -> bool:
        """Whether a profile was requested lately. If not, the next request starts a new thread."""
        with self._lock:
            wanted = self._now() < self._until
            if not wanted:
                self._forget_thread(ended)
            return wanted

    def _forget_thread(self, ended: threading.Event) -> None:
        if self._ended is ended:
            self.thread = None


def summary(looks: Sequence[Look]) -> Seen:
    """The profile of these looks."""
    parts, hot = dict.fromkeys(PARTS, 0.0), dict[str, float]()
    for look in looks:
        parts[look.part] += look.seconds
        if look.part != IDLE:
            hot[look.where] = hot.get(look.where, 0.0) + look.seconds
    total, busy = sum(parts.values()), sum(hot.values())
    if not total:
        return Seen(0.0, len(looks), {}, [])
    unseen = min(parts[IDLE], max(0.0, sum(look.cpu for look in looks) - busy))
    parts[IDLE] -= unseen
    if not busy:
        parts[OTHER] += unseen
    else:
        # The unseen busy time is distributed like the seen one.
        parts |= {part: parts[part] * (1 + unseen / busy) for part in PARTS if part != IDLE}
    shares = {part: seconds / total for part, seconds in parts.items()}
    ranked = sorted(hot.items(), key=lambda item: -item[1])
    return Seen(total, len(looks), shares, [(where, seconds / busy) for where, seconds in ranked])


class _WatchedThread:
    """The thread that is sampled; `base` is the frame that runs its loop."""

    def __init__(self, ident: int, base: FrameType | None, handlers: frozenset[str], now: Callable[[], float]) -> None:
        self._ident, self._base, self._handlers, self._now = ident, base, handlers, now
        self._spent = _cpu_clock(ident)
        self._last, self._used = now(), self._spent()
        self.lives = True

    def stack(self) -> list[Raw]:
        """The present stack of the thread, above the loop."""
        frame = sys._current_frames().get(self._ident)
        self.lives = frame is not None
        return frames_above(frame, self._base)

    def seen(self, stack: Sequence[Raw]) -> Iterator[Look]:
        """One look with this stack; none if the thread has ended."""
        if self.lives:
            last, used, self._last, self._used = self._last, self._used, self._now(), self._spent()
            verdict = judge([Place.of(raw) for raw in stack], self._handlers)
            yield Look(self._last, min(WINDOW_SECONDS, self._last - last), self._used - used, *verdict)


def _look_while_running(watched: _WatchedThread) -> list[Raw]:
    """The stack of the thread at a moment that the thread did not choose."""
    with _switch_lock:
        usual = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_INTERVAL)
        try:
            time.sleep(random.uniform(*SHORT_SLEEP))
            return watched.stack()
        finally:
            sys.setswitchinterval(usual)


def _cpu_clock(ident: int) -> Callable[[], float]:
    """A function that returns a running thread's processor time in seconds; always 0 if the system has no such
    clock."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return lambda: 0.0
    clock_id = time.pthread_getcpuclockid(ident)

    def spent() -> float:
        try:
            return time.clock_gettime(clock_id)
        except OSError:
            return 0.0

    return spent
