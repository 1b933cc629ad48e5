"""The tasks that a node runs beside its requests: background work, effects, and the wait for cancelled handlers.

A handler that is cancelled with its frame may run on for a while: it cleans up, it shields something, or it waits for
a thread. The request that carried its round waits for its end, and so does a node that stops. Both wait for
CANCEL_TIMEOUT at most, and nothing else waits.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import anyio

from ..frame.frame import Frame

logger = logging.getLogger(__name__)

CANCEL_TIMEOUT = 10.0
"""Seconds within which a cancelled handler should end. After that it is logged and counted, and nobody waits for it."""


class Tasks:
    """The tasks of one runtime. `counts["unburied"]` counts handlers that did not end when they were cancelled."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self.patience = CANCEL_TIMEOUT
        """Seconds for which anybody waits for a cancelled handler. A process that has to end at once lowers it."""
        self._running: set[asyncio.Task[Any]] = set()
        self._cancelling: set[asyncio.Task[Any]] = set()
        self._effects: set[asyncio.Task[None]] = set()

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine as a task, and keep a reference to the task until it ends. What it raises is logged."""
        task = asyncio.get_running_loop().create_task(coroutine, name="framehold")
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a background task of this node ended by a bug: %r", task.get_coro(), exc_info=error)

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
        patience = self.patience
        _, running = await asyncio.wait([handler], timeout=patience)
        if running:
            self._counts["unburied"] += 1
            logger.warning(
                "a cancelled handler still runs after %g s; what it does has no effect on its call",
                patience,
                extra=frame.log_fields,
            )

    async def outlast(self, handler: asyncio.Task[None]) -> None:
        """Wait for the end of a handler that is being cancelled, at most `patience` seconds. The scopes around the
        caller can't cut this short."""
        with anyio.CancelScope(shield=True):
            await asyncio.wait([handler], timeout=self.patience)

    async def wait_for_cancelled(self) -> None:
        """Wait for the handlers that are being cancelled, each at most `patience` seconds from its cancellation."""
        if self._cancelling:
            await asyncio.wait(tuple(self._cancelling), timeout=self.patience + 1)

    async def close(self) -> None:
        """Wait for the cancelled handlers, then cancel all other tasks."""
        await self.wait_for_cancelled()
        running = (*self._running, *self._effects)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
