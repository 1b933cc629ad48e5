"""The tasks that a node runs beside its requests: background work, effects, and the wait for cancelled handlers."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import Counter
from collections.abc import Coroutine
from typing import Any

from ..frame.frame import Frame

logger = logging.getLogger(__name__)

CANCEL_TIMEOUT = 10.0
"""Seconds within which a cancelled handler should end. After that it is logged and counted."""


class Tasks:
    """The tasks of one runtime. `counts["unburied"]` counts handlers that did not end when they were cancelled."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._running: set[asyncio.Task[Any]] = set()
        self._cancelling: set[asyncio.Task[Any]] = set()
        self._effects: set[asyncio.Task[None]] = set()

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine as a task, and keep a reference to the task until it ends."""
        task = asyncio.get_running_loop().create_task(coroutine, name="framehold")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def shield(self, effect: Coroutine[Any, Any, None], context: contextvars.Context) -> asyncio.Task[None]:
        """Run an effect in a task that is not cancelled with its request or its frame. A closing node waits for it."""
        task = asyncio.get_running_loop().create_task(effect, name="framehold-effect", context=context)
        self._effects.add(task)
        task.add_done_callback(self._effects.discard)
        return task

    async def wait_for_effects(self, timeout: float = CANCEL_TIMEOUT) -> None:
        """Wait for running effects, at most `timeout` seconds: their results must be written before the store is
        closed."""
        if self._effects:
            await asyncio.wait(tuple(self._effects), timeout=timeout)

    def cancel_frame(self, frame: Frame) -> None:
        """Mark a frame dead, cancel its handler, and wait for the handler's end in a task."""
        handler = frame.kill()
        if handler is not None:
            ending = self.spawn(self._wait_for_end(handler, frame))
            self._cancelling.add(ending)
            ending.add_done_callback(self._cancelling.discard)

    @property
    def cancelling(self) -> int:
        """How many cancelled handlers may still run."""
        return len(self._cancelling)

    async def _wait_for_end(self, handler: asyncio.Task[None], frame: Frame) -> None:
        _, running = await asyncio.wait([handler], timeout=CANCEL_TIMEOUT)
        if running:
            self._counts["unburied"] += 1
            logger.warning(
                "a cancelled handler still runs after %g s; what it does has no effect on its call",
                CANCEL_TIMEOUT,
                extra=frame.log_fields,
            )

    async def close(self) -> None:
        """Wait for the cancelled handlers, then cancel all other tasks."""
        if self._cancelling:
            await asyncio.wait(tuple(self._cancelling), timeout=CANCEL_TIMEOUT + 1)
        running = (*self._running, *self._effects)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
