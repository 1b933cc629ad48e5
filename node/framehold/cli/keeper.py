"""Keeps one process of the fleet alive: tells each death in one line, and starts it again a little later each time.

A life, as it goes:
1. the process starts; what it says is kept
2. it is ready, or late: what it said is told, and from here on everything at once
3. it ends; before 2 and in its first life that is a failed start, and nobody tries again
4. after a pause, which doubles while lives are short, the next life begins
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .children import Child, Spec, cause
from .voice import Voice

_LOOK = 0.05
"""Seconds between two questions whether a process is ready."""
_LATE = 5.0
"""Seconds after which a process that isn't ready is heard all the same: it may be saying why."""


class StartFailed(Exception):
    """A process ended before it was ready. `lines` are its last ones."""

    def __init__(self, message: str, lines: list[str]) -> None:
        super().__init__(message)
        self.lines = lines


@dataclass
class Backoff:
    """How long to wait before the next life, in seconds. `short` counts the lives that were over too soon."""

    first: float = 0.5
    most: float = 10.0
    enough: float = 30.0
    short: int = field(default=0, init=False)

    def after(self, lived: float) -> float:
        """The pause after a life of `lived` seconds."""
        self.short = 1 if lived >= self.enough else self.short + 1
        return min(self.first * 2.0 ** min(self.short - 1, 30), self.most)

    @property
    def worth_a_line(self) -> bool:
        """Whether the death that was just counted is told: at first all are, then one in six."""
        return self.short <= 6 or self.short % 6 == 0


class Keeper:
    """Runs one process, life after life. `banner` tells a line that says nothing new: where it serves is in the
    table."""

    def __init__(
        self, spec: Spec, voice: Voice, backoff: Backoff | None = None, banner: Callable[[str], bool] = lambda _: False
    ) -> None:
        self.spec, self._voice, self._banner = spec, voice, banner
        self._backoff = backoff or Backoff()
        self.child: Child | None = None
        self.ready = asyncio.Event()
        self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Settled when the first life is ready, or failed with StartFailed."""
        self._stopping, self._wanted = asyncio.Event(), False
        self._last_words: list[str] = []
        self._running: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    def begin(self) -> None:
        """Start its first life."""
        self._running = asyncio.create_task(self._run(), name=f"keeper of {self.name}")

    async def restart(self, grace: float) -> None:
        """End this life on purpose; the next one begins at once. Returns when that one is ready, or has ended."""
        child = self.child
        if child is None or not child.alive:
            return
        self._wanted = True
        self.ready.clear()
        child.send(self.spec.ends)
        ended = asyncio.create_task(child.ended())
        await asyncio.wait((ended,), timeout=grace)
        child.send(signal.SIGKILL)
        await ended
        await self.ready.wait()

    def stop(self) -> None:
        """Ask it to end; `gone` waits until it has."""
        self._stopping.set()
        if self.child is not None:
            self.child.send(self.spec.ends)

    def kill(self) -> None:
        """End it at once."""
        self._stopping.set()
        if self.child is not None:
            self.child.send(signal.SIGKILL)

    async def gone(self) -> None:
        """Wait until its process has ended and no other will be started."""
        if self._running is not None:
            await asyncio.wait((self._running,))

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        while not self._stopping.is_set():
            born = clock()
            try:
                code = await self._live()
            except OSError as error:
                self._fail(StartFailed(f"{self.name} can't be started: {error}", []))
                return
            if self._stopping.is_set() or not self.first.done():
                self._fail(self._failure(code))
                return
            if self._wanted:
                self._wanted = False
                continue
            pause = self._backoff.after(clock() - born)
            self._tell(code, pause)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    async def _live(self) -> int:
        """One life, from start to end."""
        child = self.child = await Child.start(self.spec, self._hear)
        if self._stopping.is_set():
            # It was told to end before there was a process to hear it.
            child.send(signal.SIGKILL)
        watching = asyncio.create_task(self._watch(child))
        try:
            return await child.ended()
        finally:
            self.ready.clear()
            watching.cancel()

    async def _watch(self, child: Child) -> None:
        clock = asyncio.get_running_loop().time
        late = clock() + _LATE
        while self.spec.ready is not None and not await self.spec.ready():
            await asyncio.sleep(_LOOK)
            if clock() > late and self.spec.heard:
                child.release()
        if self.spec.heard:
            child.release()
        if not self.first.done():
            self.first.set_result(None)
        else:
            self._voice.say(f"{self.name} is back (pid {child.pid})")
        self.ready.set()

    def _hear(self, line: str) -> None:
        if not self._banner(line):
            self._voice.child(self.name, line)

    def _failure(self, code: int) -> StartFailed:
        lines = self.child.last_lines() if self.child else []
        why = _last_words(lines)
        told = f"{self.name} ended ({cause(code)}) before it was ready{f': {why}' if why else ''}"
        # One line alone is told already.
        return StartFailed(told, lines if len(lines) > 1 else [])

    def _fail(self, why: StartFailed) -> None:
        if not self.first.done():
            self.first.set_exception(why)
            # Nobody may be waiting any more, when the whole fleet stops.
            self.first.exception()

    def _tell(self, code: int, pause: float) -> None:
        """One line for a death, and the last words of a life that never became ready, unless they are the same
        again."""
        assert self.child is not None
        words = self.child.last_lines() if self.spec.heard else []
        if words and words != self._last_words:
            for line in words:
                self._hear(line)
        self._last_words = words
        if self._backoff.worth_a_line:
            told = code in (-signal.SIGTERM, -signal.SIGINT)
            loss = f"; {self.spec.loss}" if self.spec.loss and not told else ""
            verb = "was told to end" if told else "died"
            self._voice.say(f"{self.name} {verb} ({cause(code)}){loss}; starting it again in {pause:g} s")


def _last_words(lines: Sequence[str]) -> str:
    """The last line that says something: of a traceback the error itself, out of the frame that a group draws."""
    said = (line.strip(" \t|+-").removeprefix("framehold: ") for line in reversed(lines))
    return next((line.rstrip(".").removesuffix("; nothing was started") for line in said if line), "")
