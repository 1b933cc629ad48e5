"""A fleet of processes on this machine: started together, kept alive, ended together.

The order: the store first and last, since all others need it. A start that fails ends whatever was started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .children import Spec
from .keeper import Backoff, Keeper, StartFailed
from .voice import Voice


@dataclass(frozen=True)
class Pace:
    """How patient a supervisor is, in seconds: for a start, for an end, between lives at first and at most, and how
    long a life must be to count as a good one."""

    start: float = 20.0
    end: float = 10.0
    first: float = 0.5
    most: float = 10.0
    enough: float = 30.0


class Supervisor:
    """Runs `specs` in groups, one group after another: a group is started when the one before is ready."""

    def __init__(
        self,
        groups: Sequence[Sequence[Spec]],
        voice: Voice,
        pace: Pace | None = None,
        banner: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.pace = pace or Pace()
        self._voice = voice
        self.groups = [[Keeper(spec, voice, self._backoff(), banner) for spec in group] for group in groups]
        self._hurry = asyncio.Event()
        voice.names([keeper.name for keeper in self._keepers()])

    def _keepers(self) -> list[Keeper]:
        return [keeper for group in self.groups for keeper in group]

    def _backoff(self) -> Backoff:
        return Backoff(self.pace.first, self.pace.most, self.pace.enough)

    def keeper(self, name: str) -> Keeper:
        """The keeper of the process of that name."""
        return next(keeper for keeper in self._keepers() if keeper.name == name)

    async def start(self) -> None:
        """Start all; return when all are ready.

        Raises:
            StartFailed: one ended, or was not ready in time. What was started still runs: `stop` it.
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

    async def restart(self, names: Sequence[str]) -> bool:
        """Restart these one after the other; stop at the first that isn't ready in time. Returns whether all are."""
        for name in names:
            try:
                async with asyncio.timeout(self.pace.start):
                    await self.keeper(name).restart(self.pace.end)
            except TimeoutError:
                return False
        return True

    async def stop(self) -> None:
        """End all: the last group first, killing what hasn't ended in time. When this returns no process is left."""
        deadline = asyncio.get_running_loop().time() + self.pace.end
        hurry = asyncio.create_task(self._hurry.wait())
        for group in reversed(self.groups):
            for keeper in group:
                keeper.stop()
            gone = asyncio.ensure_future(asyncio.gather(*(keeper.gone() for keeper in group)))
            # Each group has a moment, also where the one before took all the time.
            left = max(deadline - asyncio.get_running_loop().time(), min(1.0, self.pace.end))
            await asyncio.wait((gone, hurry), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not gone.done():
                for keeper in group:
                    keeper.kill()
            await gone
        hurry.cancel()

    def kill(self) -> None:
        """Don't wait any longer: `stop`, which is under way, kills what is left."""
        self._hurry.set()
