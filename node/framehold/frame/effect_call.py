"""Calls an effect of `once`: on the event loop or in a thread. Used for calls with a frame and for calls without."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from framehold_core.errors import AskError, KeyReused

from .async_functions import is_async
from .rehearsal import misused, rehearsal_observer

MAX_THREADS = 128
"""How many effects may run in threads at once in this process. Those are the effects that are no coroutine functions;
further ones wait."""
_threads = ThreadPoolExecutor(MAX_THREADS, "framehold-effect")
WINDOW_POLL = 0.05
"""Seconds between two looks at the window of a node's lease while it is shut."""
_NOT_BEGUN = object()
running_effect: contextvars.ContextVar[str | None] = contextvars.ContextVar("framehold_inside", default=None)
"""The key of the effect that the running code belongs to; None outside of effects."""


def refuse_inside_effect(what: str) -> None:
    """Raise AskError if the running code belongs to an effect. Replay does not run effects again, so a question or a
    `once` inside of one would be missing there. `what` names it for the error."""
    if (effect := running_effect.get()) is not None:
        raise misused(
            AskError(
                f"{what} inside the effect of once({effect!r}), which replay leaves out; it was not asked or run, what "
                "the effect did before is done; ask before the effect and hand it the outcome"
            )
        )


async def call_effect(
    fn: Callable[..., Any], args: Any, kwargs: Any, may_begin: Callable[[], bool] = lambda: True
) -> Any:
    """Call an effect and return its result. A coroutine function runs on this loop; any other function runs in a
    thread, so that it does not block the loop. `may_begin` is asked in the step, or in the thread, in which the effect
    would begin; while it may not, the effect waits. It raises CancelledError if the effect must not begin any more."""
    if (watching := rehearsal_observer.get()) is None:
        return await _call(fn, args, kwargs, may_begin)
    call = functools.partial(fn, *args, **kwargs)
    return await watching.effect(running_effect.get() or "", call, lambda: _call(fn, args, kwargs, may_begin))


async def _call(fn: Callable[..., Any], args: Any, kwargs: Any, may_begin: Callable[[], bool]) -> Any:
    await _wait_until(may_begin)
    if is_async(fn):
        return await fn(*args, **kwargs)
    context, loop = contextvars.copy_context(), asyncio.get_running_loop()
    run = functools.partial(context.run, _in_thread, fn, args, kwargs, may_begin)
    # All threads may have been busy for longer than the window was open.
    while (result := await loop.run_in_executor(_threads, run)) is _NOT_BEGUN:
        await _wait_until(may_begin)
    if not inspect.isawaitable(result):
        return result
    try:
        await _wait_until(may_begin)
    except asyncio.CancelledError:
        if inspect.iscoroutine(result):
            result.close()
        raise
    return await result


async def _wait_until(may_begin: Callable[[], bool]) -> None:
    while True:
        if may_begin():
            return
        await asyncio.sleep(WINDOW_POLL)


def _in_thread(fn: Callable[..., Any], args: Any, kwargs: Any, may_begin: Callable[[], bool]) -> Any:
    """Turn StopIteration into a RuntimeError, as a coroutine does. A future can't hold it, so the caller would never
    get it."""
    if not may_begin():
        return _NOT_BEGUN
    try:
        return fn(*args, **kwargs)
    except StopIteration as error:
        raise RuntimeError("the effect raised StopIteration") from error


def key_reused(key: str, known: str, name: str) -> KeyReused:
    """The error for one key that is used for two effects. `known` names the first function, `name` the second."""
    what = f"{known} with other arguments" if known == name else f"{known}, not {name}"
    found = f"once({key!r}) stands for {what} in this call already; the second was not run"
    return misused(KeyReused(f"{found}; give each effect its own key"))
