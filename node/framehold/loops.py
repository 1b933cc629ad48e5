"""A frame lives on one event loop: what another loop may not do, and how another thread gets there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from framehold_core.errors import AskError

FoundT = TypeVar("FoundT")


def check(loop: asyncio.AbstractEventLoop, what: str) -> None:
    """Raise AskError where the running loop is not `loop`."""
    if asyncio.get_running_loop() is not loop:
        raise AskError(f"{what} from another event loop than the handler's; nothing was asked or run; await it there")


def run_on(loop: asyncio.AbstractEventLoop, run: Callable[[], FoundT]) -> FoundT:
    """What `run` gives, or raise what it raises, on `loop`. Another thread waits for it."""
    try:
        here = asyncio.get_running_loop() is loop
    except RuntimeError:
        here = False
    if here:
        return run()
    told: list[Future[FoundT]] = [Future()]

    def carry() -> None:
        try:
            told[0].set_result(run())
        except BaseException as error:
            told[0].set_exception(error)

    loop.call_soon_threadsafe(carry)
    try:
        return told[0].result()
    finally:
        # What it raised would hold the caller's frame, and that what it raised.
        told.clear()
