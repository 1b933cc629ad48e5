"""What a node runs beside its requests, and how frames are buried: deliberately, and counted where it fails."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import Counter
from collections.abc import Coroutine
from typing import Any

from .frames import Frame

logger = logging.getLogger(__name__)

BURIAL = 10.0
"""Seconds that a cancelled handler gets before its node says that it won't end."""


class Tasks:
    """Tasks that belong to a runtime. `counts["unburied"]` counts handlers that did not end when cancelled."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._running: set[asyncio.Task[Any]] = set()
        self._burials: set[asyncio.Task[Any]] = set()
        self._effects: set[asyncio.Task[None]] = set()

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something, and keep it from being collected meanwhile."""
        task = asyncio.get_running_loop().create_task(coroutine, name="framehold")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def shield(self, effect: Coroutine[Any, Any, None], context: contextvars.Context) -> asyncio.Task[None]:
        """Run an effect that no request's end and no frame's death cuts off; a closing node waits for it."""
        task = asyncio.get_running_loop().create_task(effect, name="framehold-effect", context=context)
        self._effects.add(task)
        task.add_done_callback(self._effects.discard)
        return task

    async def landed(self) -> None:
        """Wait for the effects that run, within reason: their results are to be written before the store is let go."""
        if self._effects:
            await asyncio.wait(tuple(self._effects), timeout=BURIAL)

    def bury(self, frame: Frame) -> None:
        """Silence a frame and see its handler to its end."""
        handler = frame.kill()
        if handler is not None:
            burial = self.spawn(self._bury(handler))
            self._burials.add(burial)
            burial.add_done_callback(self._burials.discard)

    @property
    def burying(self) -> int:
        """How many cancelled handlers are not known to have ended."""
        return len(self._burials)

    async def _bury(self, handler: asyncio.Task[None]) -> None:
        _, running = await asyncio.wait([handler], timeout=BURIAL)
        if running:
            self._counts["unburied"] += 1
            logger.warning("a cancelled handler still runs after %g s; what it does has no effect on its call", BURIAL)

    async def close(self) -> None:
        """Wait for the burials, then end everything else."""
        if self._burials:
            await asyncio.wait(tuple(self._burials), timeout=BURIAL + 1)
        running = (*self._running, *self._effects)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
