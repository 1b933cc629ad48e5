"""Threads of handlers that wait for an answer.

A handler that is not async runs in a thread of anyio's, and may ask from there: `anyio.from_thread.run(ctx.elicit,
...)`. So may a thread that an async handler starts. The thread then waits for a person. All these threads share the 40
places of anyio's default limiter, so 40 such questions would stop every handler that needs one. Hence a thread that
waits counts against a limit of its own, and lends its place among the 40 to others until its answer comes.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import anyio.to_thread

from framehold_core.errors import LimitExceeded

logger = logging.getLogger(__name__)
_FROM_THREAD = "AsyncIOBackend.run_async_from_thread.<locals>.task_wrapper"
"""The coroutine that `anyio.from_thread.run` starts on the event loop."""


class AskingThreads:
    """The threads of one node's handlers that wait for an answer, at most `limit`. A thread is known by the task that
    does what it has asked the event loop for."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: set[asyncio.Task[Any]] = set()

    @staticmethod
    def runs_for(handler: asyncio.Task[Any] | None, task: asyncio.Task[Any] | None) -> bool:
        """Whether `task` does what the thread of `handler` has asked the event loop for. That thread waits for it, and
        `handler` for the thread: so what it comes to is in the order of the handler's own."""
        if handler is None or not _is_for_thread(task):
            return False
        return handler in anyio.to_thread.current_default_thread_limiter().statistics().borrowers

    def begin(self, handler: asyncio.Task[Any] | None, task: asyncio.Task[Any] | None) -> asyncio.Task[Any] | None:
        """`task` of a handler asks that is not `handler`, the handler's own task. If a thread waits for `task`, it
        waits for the answer now. Any other task asks for the thread that `handler` is in, if it is in one: `handler`
        stands for that.

        Returns:
            What to give to `end` when the thread goes on; None where no thread waits.

        Raises:
            LimitExceeded: as many threads wait as may.
        """
        places = anyio.to_thread.current_default_thread_limiter()
        thread = task if _is_for_thread(task) else handler
        if thread is None or thread in self._waiting:
            return None
        if thread is handler and handler not in places.statistics().borrowers:
            return None
        if len(self._waiting) >= self._limit:
            raise LimitExceeded(
                f"a question is one too many: {self._limit} threads of this node's handlers wait for answers, its "
                "limit (FRAMEHOLD_MAX_ASKING_THREADS); nothing was asked; async code would wait without a thread",
                limit="MAX_ASKING_THREADS",
            )
        self._waiting.add(thread)
        places.total_tokens += 1
        if len(self._waiting) == self._limit:
            logger.warning(
                "%d threads of handlers wait for answers, as many as may (FRAMEHOLD_MAX_ASKING_THREADS); further "
                "questions from threads fail; ask from async code",
                self._limit,
            )
        return thread

    def end(self, thread: asyncio.Task[Any]) -> None:
        """The thread waits no longer: its place is its own again."""
        self._waiting.discard(thread)
        anyio.to_thread.current_default_thread_limiter().total_tokens -= 1


def _is_for_thread(task: asyncio.Task[Any] | None) -> bool:
    """Whether `task` does what a thread has asked the event loop for."""
    return task is not None and getattr(task.get_coro(), "__qualname__", "") == _FROM_THREAD
