"""What an event loop is busy with: a thread that looks, some ten times a second, at what the loop's thread does.

The law: nobody pays for it who does not ask. The thread starts with the first who asks and ends LINGER seconds after
the last, or with its node. It keeps what it saw in the last minute, and no more than MOST looks.

A thread of Python sees another one only when that lets go of the interpreter, which it does by itself when it waits: a
loop that works in bursts of a millisecond would always be seen waiting. So

1. the thread sleeps, which of all takes most of the time
2. for the few milliseconds of one more sleep a thread that wants the interpreter is not kept waiting for the usual
   5 ms, but for microseconds; then it looks
3. each look stands for the time since the one before. A call that keeps the interpreter, for a second, lets go of it
   when it ends: who wakes that late looks at once, and the look stands for the second
4. what the loop's thread took of the processor, by its own clock, counts as busy even where it was seen waiting
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

from . import clock
from .stacks import IDLE, OTHER, PARTS, Place, Raw, above, judge, root

SPAN = 60.0
"""Seconds that are told of."""
LINGER = 30.0
"""Seconds after the last who asked."""
MOST = 2048
PAUSE, BEFORE = (0.050, 0.150), (0.001, 0.010)
"""Seconds of the long sleep and of the short one, at random between the two: what comes as regularly is not missed."""
QUICK = 2e-4
"""Seconds until a thread that has the interpreter is asked for it."""

LATE = 0.02
"""Seconds by which the long sleep was too long, from which on somebody is to blame."""

_turn = threading.Lock()
"""The setting is the whole process's: samplers of several nodes take turns."""


class Look(NamedTuple):
    """What was seen `at` a time; it stands for so many `seconds`, in which the thread took `cpu` of the processor."""

    at: float
    seconds: float
    cpu: float
    part: str
    where: str


class Seen(NamedTuple):
    """What was seen in the last minute: over how many seconds, in how many looks; each part's share of the time, which
    sum up to 1, and each function's of the busy time, most first. No shares without a look."""

    seconds: float
    samples: int
    parts: dict[str, float]
    hot: list[tuple[str, float]]


class Sampler:
    """Looks at the thread of the event loop that it is asked on. `handlers` gives the packages that handlers are
    from."""

    def __init__(self, handlers: Callable[[], frozenset[str]], now: Callable[[], float] = clock.now) -> None:
        self._handlers, self._now = handlers, now
        self._kept: deque[Look] = deque(maxlen=MOST)
        self._lock = threading.Lock()
        self._until = 0.0
        self._ended = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.thread: threading.Thread | None = None
        """Who looks, while somebody does."""

    def ask(self) -> Seen:
        """What was seen so far; look on for a while, or begin to."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self._until = self._now() + LINGER
            looks = self._looks_at(loop)
        if not looks:
            # A callback of its own stands on nothing but the loop.
            loop.call_soon(self._begin, loop)
        since = self._now() - SPAN
        return summary([look for look in tuple(self._kept) if look.at >= since] if looks else ())

    def close(self) -> None:
        """Look no longer, until asked again. Waits for the thread's end: a few milliseconds."""
        with self._lock:
            thread, self.thread, self._loop, self._until = self.thread, None, None, 0.0
            self._ended.set()
        if thread is not None and thread.ident is not None:
            thread.join()

    def _looks_at(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether a thread does. One of another loop, or that never came to run, tells nothing of this one."""
        return self.thread is not None and self.thread.is_alive() and self._loop is loop

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        here = inspect.currentframe()
        watched = _Watched(threading.get_ident(), root(here and here.f_back), self._handlers(), self._now)
        with self._lock:
            if self._looks_at(loop) or self._now() >= self._until:
                return
            self._ended.set()
            self._ended, self._kept, self._loop = threading.Event(), deque(maxlen=MOST), loop
            self.thread = threading.Thread(
                target=self._run, args=(self._ended, watched, self._kept), name="framehold-sampler", daemon=True
            )
            self.thread.start()

    def _run(self, ended: threading.Event, watched: _Watched, kept: deque[Look]) -> None:
        try:
            while watched.lives:
                pause, began = random.uniform(*PAUSE), time.monotonic()
                if ended.wait(pause) or not self._is_wanted(ended):
                    break
                if time.monotonic() - began > pause + LATE:
                    # Whoever kept the interpreter that long has just let go of it.
                    kept.extend(watched.seen(watched.stack()))
                kept.extend(watched.seen(_glance(watched)))
        finally:
            with self._lock:
                self._leave(ended)

    def _is_wanted(self, ended: threading.Event) -> bool:
        """Whether somebody has asked lately. Where nobody has, whoever asks next begins anew."""
        with self._lock:
            wanted = self._now() < self._until
            if not wanted:
                self._leave(ended)
            return wanted

    def _leave(self, ended: threading.Event) -> None:
        if self._ended is ended:
            self.thread = None


def summary(looks: Sequence[Look]) -> Seen:
    """What these looks say together."""
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
        # Where it was seen busy says best what it did when it was not.
        parts |= {part: parts[part] * (1 + unseen / busy) for part in PARTS if part != IDLE}
    shares = {part: seconds / total for part, seconds in parts.items()}
    ranked = sorted(hot.items(), key=lambda item: -item[1])
    return Seen(total, len(looks), shares, [(where, seconds / busy) for where, seconds in ranked])


class _Watched:
    """The thread that is looked at: `base` is the frame that runs its loop."""

    def __init__(self, ident: int, base: FrameType | None, handlers: frozenset[str], now: Callable[[], float]) -> None:
        self._ident, self._base, self._handlers, self._now = ident, base, handlers, now
        self._spent = _meter(ident)
        self._last, self._used = now(), self._spent()
        self.lives = True

    def stack(self) -> list[Raw]:
        """Where it is now, above the loop."""
        frame = sys._current_frames().get(self._ident)
        self.lives = frame is not None
        return above(frame, self._base)

    def seen(self, stack: Sequence[Raw]) -> Iterator[Look]:
        """A look at it; none where it has ended."""
        if self.lives:
            last, used, self._last, self._used = self._last, self._used, self._now(), self._spent()
            verdict = judge([Place.of(raw) for raw in stack], self._handlers)
            yield Look(self._last, min(SPAN, self._last - last), self._used - used, *verdict)


def _glance(watched: _Watched) -> list[Raw]:
    """Its stack, at a moment that it has no part in."""
    with _turn:
        usual = sys.getswitchinterval()
        sys.setswitchinterval(QUICK)
        try:
            time.sleep(random.uniform(*BEFORE))
            return watched.stack()
        finally:
            sys.setswitchinterval(usual)


def _meter(ident: int) -> Callable[[], float]:
    """What tells a running thread's time on the processor, in seconds; always nothing where the system doesn't."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return lambda: 0.0
    clock_id = time.pthread_getcpuclockid(ident)

    def spent() -> float:
        try:
            return time.clock_gettime(clock_id)
        except OSError:
            return 0.0

    return spent
