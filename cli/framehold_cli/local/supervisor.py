"""A fleet of processes on this machine: started together, kept alive, ended together.

The store starts first and ends last, since all others need it. When a start fails, `stop` ends what was started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..show.voice import Voice
from .check import Checked
from .children import Spec
from .keeper import Backoff, ChildKeeper, StartFailed


@dataclass(frozen=True)
class Pace:
    """Times of a supervisor, in seconds.

    `start` and `end` are the timeouts of a start and of an end. `first` and `max_pause` are the first and the longest
    pause between two lives. A life of `good_life` or more resets the pause to `first`."""

    start: float = 60.0
    end: float = 10.0
    first: float = 1.0
    max_pause: float = 60.0
    good_life: float = 30.0


class Supervisor:
    """Runs processes in groups. A group is started when the group before it is ready."""

    def __init__(
        self,
        groups: Sequence[Sequence[Spec]],
        voice: Voice,
        pace: Pace | None = None,
        banner: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.pace = pace or Pace()
        self._voice = voice
        self.groups = [[ChildKeeper(spec, voice, self._backoff(), banner) for spec in group] for group in groups]
        self._kill_now = asyncio.Event()
        voice.names([keeper.name for keeper in self._keepers()])

    def _keepers(self) -> list[ChildKeeper]:
        return [keeper for group in self.groups for keeper in group]

    def _backoff(self) -> Backoff:
        return Backoff(self.pace.first, self.pace.max_pause, self.pace.good_life)

    def keeper(self, name: str) -> ChildKeeper:
        """The keeper of the process with this name."""
        return next(keeper for keeper in self._keepers() if keeper.name == name)

    async def start(self) -> None:
        """Start all processes; return when all are ready.

        Raises:
            StartFailed: one ended, or was not ready in time. The others still run: call `stop`.
        """
        try:
            async with asyncio.timeout(self.pace.start):
                for group in self.groups:
                    for keeper in group:
                        keeper.begin()
                    for first in asyncio.as_completed([keeper.first for keeper in group]):
                        await first
        except TimeoutError:
            late = next(keeper for keeper in self._keepers() if not keeper.first.done())
            lines = late.child.last_lines() if late.child else []
            raise StartFailed(f"{late.name} was not ready within {self.pace.start:g} s", lines) from None

    async def stand_by(self, names: Sequence[str]) -> None:
        """Start the next processes of these names; see `ChildKeeper.stand_by`."""
        for name in names:
            await self.keeper(name).stand_by()

    async def check(self, names: Sequence[str]) -> Checked:
        """Have the next processes of these names import TARGET, side by side.

        Raises:
            ConfigError: TARGET can't be served. Then none of them stands by any more.
        """
        keepers = [self.keeper(name) for name in names]
        found = await asyncio.gather(*(keeper.check() for keeper in keepers), return_exceptions=True)
        for item in found:
            if isinstance(item, BaseException):
                for keeper in keepers:
                    await keeper.stand_down()
                raise item
        return next(item for item in found if isinstance(item, Checked))

    async def restart(self, names: Sequence[str]) -> bool:
        """Restart the processes of these names, side by side.

        Returns whether all are ready again in time."""
        try:
            async with asyncio.timeout(self.pace.start):
                await asyncio.gather(*(self.keeper(name).restart(self.pace.end) for name in names))
        except TimeoutError:
            return False
        return True

    async def stop(self) -> None:
        """End all processes, the last group first. Kill those that haven't ended in time. Afterwards no process is
        left."""
        deadline = asyncio.get_running_loop().time() + self.pace.end
        hurry = asyncio.create_task(self._kill_now.wait())
        for group in reversed(self.groups):
            for keeper in group:
                keeper.stop()
            gone = asyncio.ensure_future(asyncio.gather(*(keeper.gone() for keeper in group)))
            # Each group gets a second, also if the group before it used up the time.
            left = max(deadline - asyncio.get_running_loop().time(), min(1.0, self.pace.end))
            await asyncio.wait((gone, hurry), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not gone.done():
                for keeper in group:
                    keeper.kill()
            await gone
        hurry.cancel()

    def kill(self) -> None:
        """Make a `stop` that is under way kill the processes that are left."""
        self._kill_now.set()
