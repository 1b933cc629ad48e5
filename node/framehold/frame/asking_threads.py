"""Threads of handlers that wait for an answer.

A handler that is not async runs in a thread of anyio's, and may ask from there: `anyio.from_thread.run(ctx.elicit,
...)`. Its thread then waits for a person. All handlers of a process that are not async share the 40 places of anyio's
default limiter, so 40 such questions would stop every one of them. Hence a thread that waits counts against a limit of
its own, and lends its place among the 40 to others until its answer comes.
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
    """The handlers of one node whose threads wait for an answer, at most `limit`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: set[asyncio.Task[Any]] = set()

    @staticmethod
    def runs_for(handler: asyncio.Task[Any] | None, task: asyncio.Task[Any] | None) -> bool:
        """Whether `task` does what the thread of `handler` has asked the event loop for. That thread waits for it, and
        `handler` for the thread: so what it comes to is in the order of the handler's own."""
        if handler is None or task is None or getattr(task.get_coro(), "__qualname__", "") != _FROM_THREAD:
            return False
        return handler in anyio.to_thread.current_default_thread_limiter().statistics().borrowers

    def begin(self, handler: asyncio.Task[Any] | None) -> asyncio.Task[Any] | None:
        """A task of a handler asks that is not `handler`, the handler's own task. If `handler` is in a thread, the
        question comes from there: the thread waits now.

        Returns:
            What to give to `end` when the thread goes on; None where no thread waits.

        Raises:
            LimitExceeded: as many threads wait as may.
        """
        places = anyio.to_thread.current_default_thread_limiter()
        if handler is None or handler in self._waiting or handler not in places.statistics().borrowers:
            return None
        if len(self._waiting) >= self._limit:
            raise LimitExceeded(
                f"a question is one too many: {self._limit} threads of this node's handlers wait for answers, its "
                "limit (FRAMEHOLD_MAX_ASKING_THREADS); nothing was asked; an async handler would wait without a thread",
                limit="MAX_ASKING_THREADS",
            )
        self._waiting.add(handler)
        places.total_tokens += 1
        if len(self._waiting) == self._limit:
            logger.warning(
                "%d threads of handlers that are not async wait for answers, as many as may "
                "(FRAMEHOLD_MAX_ASKING_THREADS); further questions from threads fail; make these handlers async",
                self._limit,
            )
        return handler

    def end(self, handler: asyncio.Task[Any]) -> None:
        """The thread of `handler` waits no longer: its place is its own again."""
        self._waiting.discard(handler)
        anyio.to_thread.current_default_thread_limiter().total_tokens -= 1
