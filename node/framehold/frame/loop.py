"""A frame lives on one event loop. Here code of another loop is refused, and another thread can run code on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from framehold_core.errors import AskError

FoundT = TypeVar("FoundT")


def check(loop: asyncio.AbstractEventLoop, what: str) -> None:
    """Raise AskError if the running loop is not `loop`. `what` names the refused action for the error."""
    if asyncio.get_running_loop() is not loop:
        raise AskError(f"{what} from another event loop than the handler's; nothing was asked or run; await it there")


def has_nothing_to_run(loop: asyncio.AbstractEventLoop, own: int) -> bool:
    """Whether no callback waits for its turn but `own` ones of the caller, so that each other task of the loop waits
    for something. False where the loop does not show that."""
    ready = getattr(loop, "_ready", None)
    return ready is not None and len(ready) <= own


def run_on(loop: asyncio.AbstractEventLoop, run: Callable[[], FoundT]) -> FoundT:
    """Call `run` on `loop`; return its result, or raise its error. A caller in another thread blocks until then."""
    try:
        here = asyncio.get_running_loop() is loop
    except RuntimeError:
        here = False
    if here:
        return run()
    result: list[Future[FoundT]] = [Future()]

    def carry() -> None:
        try:
            result[0].set_result(run())
        except BaseException as error:
            result[0].set_exception(error)

    loop.call_soon_threadsafe(carry)
    try:
        return result[0].result()
    finally:
        # An error holds the stack frame of this caller in its traceback, and that frame would hold the error.
        result.clear()
