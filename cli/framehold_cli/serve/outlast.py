"""Runs an event loop until its main task has ended, also where something else raises SystemExit or KeyboardInterrupt.

asyncio lets both out of any task or callback, and stops the loop there. What a call raises is contained
(`frame.contained`); a task of the author's lifespan may still end the process, and a process that ends hands its calls
off before it closes its store. Both of that needs the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from framehold.frame.contained import ENDS_PROCESS
from framehold.telemetry.failures import failure_of

logger = logging.getLogger("framehold")
FoundT = TypeVar("FoundT")


def run(runner: asyncio.Runner, main: Coroutine[Any, Any, FoundT], leave: Callable[[], None]) -> FoundT:
    """Run `main` and return its result. If anything else ends the loop, call `leave` on it, which has `main` end, run
    on until `main` has ended, and raise what ended the loop."""
    tasks: list[asyncio.Task[Any]] = []

    async def kept() -> FoundT:
        task = asyncio.current_task()
        assert task is not None, "a coroutine that runs belongs to a task"
        tasks.append(task)
        return await main

    try:
        return runner.run(kept())
    except ENDS_PROCESS as error:
        if tasks and not tasks[0].done():
            logger.error("%s at %s ends this process, and no call raised it; this node leaves now", *failure_of(error))
            runner.get_loop().call_soon(leave)
            _end(runner.get_loop(), tasks[0])
        raise


def _end(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    while not task.done():
        try:
            loop.run_until_complete(task)
        except ENDS_PROCESS:
            logger.exception("this process ends already; it goes on leaving")
