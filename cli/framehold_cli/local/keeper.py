"""Keeps one process of the fleet alive: reports each death in one line, and starts the process again with a backoff.

The steps of one life:
1. the process starts; its output is held back
2. the process is ready, or late: the held output is shown, and from now on each line at once
3. the process ends. An end before step 2 in the first life is a failed start, and the process is not started again
4. after a pause, which doubles while lives are short, the next life begins
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..show.voice import Voice
from .check import Checked
from .children import Child, Spec, cause
from .standby import Standby

_READY_POLL = 0.05
"""Seconds between two checks whether a process is ready."""
_LATE_AFTER = 5.0
"""Seconds after which the output of a process that isn't ready is shown: the output may say why."""


class StartFailed(Exception):
    """A process ended before it was ready. `lines` are the last lines of its output."""

    def __init__(self, message: str, lines: list[str]) -> None:
        super().__init__(message)
        self.lines = lines


@dataclass
class Backoff:
    """The pauses between lives, in seconds. `short` counts the lives in a row that were shorter than `good_life`."""

    first: float = 1.0
    max_pause: float = 60.0
    good_life: float = 30.0
    short: int = field(default=0, init=False)

    def after(self, lived: float) -> float:
        """The pause in seconds after a life of `lived` seconds."""
        self.short = 1 if lived >= self.good_life else self.short + 1
        return min(self.first * 2.0 ** min(self.short - 1, 30), self.max_pause)

    @property
    def worth_a_line(self) -> bool:
        """Whether the death that was just counted is reported: the first six are, then each sixth."""
        return self.short <= 6 or self.short % 6 == 0


class ChildKeeper:
    """Runs one process, life after life. `banner` is true for a line of output that is not shown, because the table of
    `framehold up` has its contents."""

    def __init__(
        self, spec: Spec, voice: Voice, backoff: Backoff | None = None, banner: Callable[[str], bool] = lambda _: False
    ) -> None:
        self.spec = spec
        self._voice = voice
        self._banner = banner
        self._backoff = backoff or Backoff()
        self.child: Child | None = None
        self.ready = asyncio.Event()
        self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the first life is ready. Holds a StartFailed if the first life ended too soon."""
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        """Set if the next life, or the end, is to come without a pause."""
        self._standby: Standby | None = None
        self._next: Standby | None = None
        """The process of the next life, if it has been started."""
        self._last_output: list[str] = []
        self._running: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    def begin(self) -> None:
        """Start the first life."""
        self._running = asyncio.create_task(self._run(), name=f"keeper of {self.name}")

    async def stand_by(self) -> None:
        """Start the process of the next life, so that it is soon ready to serve. It serves after `check` and
        `restart`."""
        await self._standing_by()

    async def check(self) -> Checked:
        """Have the process that stands by import TARGET.

        Raises:
            ConfigError: TARGET can't be served.
        """
        try:
            return await (await self._standing_by()).check()
        except ConnectionError:
            # It was killed, and its end had not been heard of.
            await self.stand_down()
            return await (await self._standing_by()).check()

    async def _standing_by(self) -> Standby:
        if self._standby is None or not self._standby.child.alive:
            await self.stand_down()
            self._standby = await Standby.start(self.spec, self._show_line)
        return self._standby

    async def stand_down(self) -> None:
        """End the process that stands by."""
        standbys, self._standby, self._next = (self._standby, self._next), None, None
        for standby in standbys:
            if standby is not None:
                standby.kill()
                await standby.child.exit_code()

    async def restart(self, grace: float) -> None:
        """End this life on purpose, or the pause after it; the next life begins at once, by the process that stands by,
        if there is one. Return when the next life is ready.

        `grace`: seconds until a process that has not ended is killed."""
        standby, self._standby = self._standby, None
        await self.stand_down()
        self._next = standby
        self.ready.clear()
        self._hurry.set()
        if (child := self.child) is not None and child.alive:
            child.send(self.spec.stop_signal)
            exit_code = asyncio.create_task(child.exit_code())
            await asyncio.wait((exit_code,), timeout=grace)
            child.send(signal.SIGKILL)
            await exit_code
        await self.ready.wait()

    def stop(self) -> None:
        """Ask the process to end. `gone` waits for the end."""
        self._stopping.set()
        self._hurry.set()
        if self.child is not None:
            self.child.send(self.spec.stop_signal)

    def kill(self) -> None:
        """Kill the process."""
        self._stopping.set()
        self._hurry.set()
        if self.child is not None:
            self.child.send(signal.SIGKILL)

    async def gone(self) -> None:
        """Wait until the process has ended and no other life will be started."""
        if self._running is not None:
            await asyncio.wait((self._running,))
        await self.stand_down()

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        while not self._stopping.is_set():
            born = clock()
            try:
                code = await self._live()
            except OSError as error:
                if not self.first.done():
                    self._fail_first_start(StartFailed(f"{self.name} can't be started: {error}", []))
                    return
                await self._pause(self._report_no_start, error, clock() - born)
                continue
            if self._stopping.is_set() or not self.first.done():
                self._fail_first_start(self._failure(code))
                return
            if not self._hurry.is_set():
                await self._pause(self._report_death, code, clock() - born)

    async def _pause(self, report: Callable[[Any, float], None], how: Any, lived: float) -> None:
        """Report how a life of `lived` seconds ended, and wait for the next one, for `restart` or for `stop`."""
        pause = self._backoff.after(lived)
        report(how, pause)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), pause)
        self._hurry.clear()

    async def _live(self) -> int:
        """Run one life from its start to its end; return the exit code."""
        child = self.child = await self._born()
        self._hurry.clear()
        if self._stopping.is_set():
            # `stop` was called before there was a process to signal.
            child.send(signal.SIGKILL)
        watching = asyncio.create_task(self._watch(child))
        try:
            return await child.exit_code()
        finally:
            self.ready.clear()
            watching.cancel()

    async def _born(self) -> Child:
        standby, self._next = self._next, None
        if standby is not None and standby.child.alive:
            return standby.serve()
        return await Child.start(self.spec, self._show_line)

    async def _watch(self, child: Child) -> None:
        clock = asyncio.get_running_loop().time
        late = clock() + _LATE_AFTER
        while self.spec.ready is not None and not await self.spec.ready():
            await asyncio.sleep(_READY_POLL)
            if clock() > late and self.spec.shows_output:
                child.release()
        if self.spec.shows_output:
            child.release()
        if not self.first.done():
            self.first.set_result(None)
        else:
            self._voice.say(f"{self.name} is back (pid {child.pid})")
        self.ready.set()

    def _show_line(self, line: str) -> None:
        if not self._banner(line):
            self._voice.child(self.name, line)

    def _failure(self, code: int) -> StartFailed:
        lines = self.child.last_lines() if self.child else []
        # After a late start the held lines were shown already. The cause belongs in the error all the same.
        why = _error_line(list(self.child.recent) if self.child else [])
        message = f"{self.name} ended ({cause(code)}) before it was ready{f': {why}' if why else ''}"
        # A single line is in the message already.
        return StartFailed(message, lines if len(lines) > 1 else [])

    def _fail_first_start(self, why: StartFailed) -> None:
        if not self.first.done():
            self.first.set_exception(why)
            # When the whole fleet stops nobody may wait for it. Reading it avoids asyncio's warning.
            self.first.exception()

    def _report_no_start(self, error: OSError, pause: float) -> None:
        """Report that the machine has no process for the next life: it is out of memory, or of descriptors."""
        if self._backoff.worth_a_line:
            self._voice.say(f"{self.name} can't be started ({error}); starting it again in {pause:g} s")

    def _report_death(self, code: int, pause: float) -> None:
        """Report a death in one line. Before it, show the output of a life that never became ready, unless the life
        before had the same output."""
        assert self.child is not None
        lines = self.child.last_lines() if self.spec.shows_output else []
        if lines and lines != self._last_output:
            for line in lines:
                self._show_line(line)
        self._last_output = lines
        if self._backoff.worth_a_line:
            asked = code in (-signal.SIGTERM, -signal.SIGINT)
            loss = f"; {self.spec.loss}" if self.spec.loss and not asked else ""
            verb = "was asked to end" if asked else "died"
            self._voice.say(f"{self.name} {verb} ({cause(code)}){loss}; starting it again in {pause:g} s")


def _error_line(lines: Sequence[str]) -> str:
    """The last line that is not empty: of a traceback, the error itself, without the frame that an exception group
    draws."""
    texts = (line.strip(" \t|+-").removeprefix("framehold: ") for line in reversed(lines))
    return next((line.rstrip(".").removesuffix("; nothing was started") for line in texts if line), "")
