"""Threads of handlers that wait for an answer.

A handler that is not async runs in a thread of anyio's, and may ask from there: `anyio.from_thread.run(ctx.elicit,
...)`. So may a thread that an async handler starts. The thread then waits for a person. All these threads share the 40
places of anyio's default limiter, so 40 such questions would stop every handler that needs one. Hence a thread that
waits counts against a limit of its own, and lends its place among the 40 to others until its answer comes.
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread

from framehold_core.errors import LimitExceeded

logger = logging.getLogger(__name__)
_FROM_THREAD = "AsyncIOBackend.run_async_from_thread.<locals>.task_wrapper"
"""The coroutine that `anyio.from_thread.run` starts on the event loop."""
_for_thread: ContextVar[asyncio.Task[Any] | None] = ContextVar("framehold_for_thread", default=None)
"""The task that does what a thread has asked the event loop for, once it has asked itself: the tasks that it starts
from then on inherit it."""


@dataclass(slots=True)
class _Thread:
    """A thread of `handler` that waits for `answers`. `lends`: it has a place of the default limiter to lend."""

    handler: asyncio.Task[Any] | None
    lends: bool
    answers: int = 0


class AskingThreads:
    """The threads of one node's handlers that wait for an answer, at most `limit`. A thread is known by the task that
    does what it has asked the event loop for, or by the handler that is in it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: dict[asyncio.Task[Any], _Thread] = {}

    @staticmethod
    def runs_for(handler: asyncio.Task[Any] | None, task: asyncio.Task[Any] | None) -> bool:
        """Whether `task` does what the thread of `handler` has asked the event loop for. That thread waits for it, and
        `handler` for the thread: so what it comes to is in the order of the handler's own."""
        if handler is None or not _is_for_thread(task):
            return False
        return handler in _places().statistics().borrowers

    def begin(self, handler: asyncio.Task[Any] | None, task: asyncio.Task[Any] | None) -> asyncio.Task[Any] | None:
        """`task` of a handler asks that is not `handler`, the handler's own task. If a thread waits for `task`, it
        waits for the answer now. Any other task asks for the thread that has started it, if that is known, else for
        the thread that `handler` is in, if it is in one.

        Returns:
            What to give to `end` when the answer has come; None where no thread waits.

        Raises:
            LimitExceeded: as many threads wait as may.
        """
        if _is_for_thread(task):
            _for_thread.set(task)
        name = self._name(handler)
        if name is None:
            return None
        if name not in self._waiting:
            self._add(name, handler)
        self._waiting[name].answers += 1
        return name

    def _name(self, handler: asyncio.Task[Any] | None) -> asyncio.Task[Any] | None:
        """The task that the thread is known by for which the running task asks; None where no thread waits."""
        task = _for_thread.get()
        if task is not None and task.done():
            # The thread has gone on, and left behind the task that asks.
            task = None
        if task in self._waiting or handler not in _places().statistics().borrowers:
            return task
        if task is not None:
            # A task that its thread had started before may have asked already.
            return handler if handler in self._waiting else task
        return next((name for name, thread in self._waiting.items() if thread.handler is handler), handler)

    def _add(self, name: asyncio.Task[Any], handler: asyncio.Task[Any] | None) -> None:
        if len(self._waiting) >= self._limit:
            raise LimitExceeded(
                f"a question is one too many: {self._limit} threads of this node's handlers wait for answers, its "
                "limit (FRAMEHOLD_MAX_ASKING_THREADS); nothing was asked; async code would wait without a thread",
                limit="MAX_ASKING_THREADS",
            )
        # A thread of another limiter takes no place: no more are lent than are taken.
        lends = _places().borrowed_tokens > sum(thread.lends for thread in self._waiting.values())
        self._waiting[name] = _Thread(handler, lends)
        _places().total_tokens += lends
        if len(self._waiting) == self._limit:
            logger.warning(
                "%d threads of handlers wait for answers, as many as may (FRAMEHOLD_MAX_ASKING_THREADS); further "
                "questions from threads fail; ask from async code",
                self._limit,
            )

    def end(self, name: asyncio.Task[Any]) -> None:
        """An answer has come. A thread that waits for no other has its place for itself again."""
        thread = self._waiting[name]
        thread.answers -= 1
        if thread.answers == 0:
            del self._waiting[name]
            _places().total_tokens -= thread.lends


def _places() -> anyio.CapacityLimiter:
    """The limiter whose places all threads share that have none of their own."""
    return anyio.to_thread.current_default_thread_limiter()


def _is_for_thread(task: asyncio.Task[Any] | None) -> bool:
    """Whether `task` does what a thread has asked the event loop for."""
    return task is not None and getattr(task.get_coro(), "__qualname__", "") == _FROM_THREAD
