"""The tasks that a node runs beside its requests: background work, effects, and the wait for cancelled handlers.

The law: nothing that is raised in a task is lost without a word. A task that carries a write or the outcome of a call
fails that call in words, or has the write sent again (`Tasks.carry`). A loop goes on (`keep`), and so does the end of a
node (`each`).

A handler that is cancelled with its frame may run on for a while: it cleans up, it shields something, or it waits for
a thread. The request that carried its round waits for its end, and so does a node that stops. Both wait for
CANCEL_TIMEOUT at most, and nothing else waits.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any

import anyio

from ..frame.frame import Frame

logger = logging.getLogger(__name__)

CANCEL_TIMEOUT = 10.0
"""Seconds within which a cancelled handler should end. After that it is logged and counted, and nobody waits for it."""


PAUSE = 0.1
"""Seconds after a turn of a loop that raised: without them a loop that raises at once would serve nothing else."""


def run_all(actions: Iterable[Callable[[], None]]) -> None:
    """Call each of `actions` in order."""
    for action in actions:
        action()


def never() -> bool:
    """False: a loop without an end."""
    return False


async def keep(what: str, turn: Callable[[], Awaitable[object]], over: Callable[[], bool] = never) -> None:
    """Carry out `turn` again and again, until `over` returns true after one, or until cancelled. What a turn raises is
    logged, of several in a row the first one alone, and the next turn follows. `what` names the loop."""
    failed = False
    while True:
        try:
            if failed:
                await asyncio.sleep(PAUSE)
            await turn()
            failed = False
        except Exception:
            level = logging.DEBUG if failed else logging.ERROR
            logger.log(level, "a bug in %s; it goes on, and is tried again", what, exc_info=True)
            failed = True
        if over():
            return


async def each(*steps: Callable[[], Awaitable[object]]) -> None:
    """Carry out all steps of an end in their order. What one raises is logged, and the others follow."""
    for step in steps:
        try:
            await step()
        except Exception:
            logger.exception("a bug at the end of this node; what follows is done all the same")


class Tasks:
    """The tasks of one runtime. `counts["unburied"]` counts handlers that did not end when they were cancelled."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self.patience = CANCEL_TIMEOUT
        """Seconds for which anybody waits for a cancelled handler. A process that has to end at once lowers it."""
        self._running: set[asyncio.Task[Any]] = set()
        self._cancelling: set[asyncio.Task[Any]] = set()
        self._effects: set[asyncio.Task[None]] = set()
        self._given_up: set[asyncio.Task[Any]] = set()
        """What was waited for in vain: nobody waits for it again."""

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine as a task, and keep a reference to the task until it ends. What it raises is logged."""
        return self._run(coroutine, partial(_log, coroutine))

    def carry(self, work: Coroutine[Any, Any, None], failed: Callable[[BaseException], None]) -> None:
        """Run `work`, which carries a write or the outcome of a call, as a task. `failed` is called with what it
        raises: it has the write sent again, or fails the call in words."""
        self._run(work, failed)

    def _run(self, work: Coroutine[Any, Any, Any], failed: Callable[[BaseException], None]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name="framehold")
        self._running.add(task)
        task.add_done_callback(partial(self._ended, failed))
        return task

    def _ended(self, failed: Callable[[BaseException], None], task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            failed(error)

    def shield(self, effect: Coroutine[Any, Any, None], context: contextvars.Context) -> asyncio.Task[None]:
        """Run an effect in a task that is not cancelled with its request or its frame. A closing node waits for it."""
        task = asyncio.get_running_loop().create_task(effect, name="framehold-effect", context=context)
        self._effects.add(task)
        task.add_done_callback(self._effects.discard)
        return task

    async def wait_for_effects(self, timeout: float = CANCEL_TIMEOUT) -> None:
        """Wait for running effects, at most `timeout` seconds: their results must be written before the store is
        closed."""
        await self._wait(self._effects, timeout)

    async def _wait(self, tasks: set[asyncio.Task[Any]], timeout: float) -> None:
        if waited := tasks - self._given_up:
            _, running = await asyncio.wait(waited, timeout=timeout)
            self._given_up |= running

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
        """Wait for the handlers that are being cancelled, each at most `patience` seconds and the time in which that is
        logged. Patience that was lowered counts for those that were cancelled before, too."""
        await self._wait(self._cancelling, self.patience * 1.1)

    async def close(self) -> None:
        """Wait for the cancelled handlers, then cancel all other tasks."""
        try:
            await self.wait_for_cancelled()
        finally:
            running = (*self._running, *self._effects)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            self._given_up.clear()


def _log(work: Coroutine[Any, Any, Any], error: BaseException) -> None:
    logger.error("a background task of this node ended by a bug: %r", work, exc_info=error)
