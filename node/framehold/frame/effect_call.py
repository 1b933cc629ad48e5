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


async def call_effect(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call an effect and return its result. A coroutine function runs on this loop; any other function runs in a
    thread, so that it does not block the loop."""
    if (watching := rehearsal_observer.get()) is None:
        return await _call(fn, args, kwargs)
    call = functools.partial(fn, *args, **kwargs)
    return await watching.effect(running_effect.get() or "", call, lambda: _call(fn, args, kwargs))


async def _call(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    if is_async(fn):
        return await fn(*args, **kwargs)
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    result = await loop.run_in_executor(_threads, context.run, _in_thread, fn, args, kwargs)
    return await result if inspect.isawaitable(result) else result


def _in_thread(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Turn StopIteration into a RuntimeError, as a coroutine does. A future can't hold it, so the caller would never
    get it."""
    try:
        return fn(*args, **kwargs)
    except StopIteration as error:
        raise RuntimeError("the effect raised StopIteration") from error


def key_reused(key: str, known: str, name: str) -> KeyReused:
    """The error for one key that is used for two effects. `known` names the first function, `name` the second."""
    what = f"{known} with other arguments" if known == name else f"{known}, not {name}"
    found = f"once({key!r}) stands for {what} in this call already; the second was not run"
    return misused(KeyReused(f"{found}; give each effect its own key"))
