"""How an effect is called, with or without a frame around it."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from framehold_core.errors import AskError, KeyReused

from .witness import misused, witness

THREADS = 128
"""How many effects that are no coroutine functions may run at once in this process; others wait for their turn."""
_threads = ThreadPoolExecutor(THREADS, "framehold-effect")
inside: contextvars.ContextVar[str | None] = contextvars.ContextVar("framehold_inside", default=None)
"""The key of the effect that the running code belongs to."""


def outside(what: str) -> None:
    """Raise AskError where the running code belongs to an effect: what it asked or ran would be missed on replay."""
    if (effect := inside.get()) is not None:
        raise misused(
            AskError(
                f"{what} inside the effect of once({effect!r}), which replay leaves out; it was not asked or run, what "
                "the effect did before is done; ask before the effect and hand it the outcome"
            )
        )


async def called(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call an effect: a coroutine function here, another function in a thread, so that it holds up nobody's call."""
    if (watching := witness.get()) is None:
        return await _called(fn, args, kwargs)
    call = functools.partial(fn, *args, **kwargs)
    return await watching.effect(inside.get() or "", call, lambda: _called(fn, args, kwargs))


async def _called(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None)):  # noqa: B004
        return await fn(*args, **kwargs)
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    result = await loop.run_in_executor(_threads, context.run, _in_thread, fn, args, kwargs)
    return await result if inspect.isawaitable(result) else result


def _in_thread(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What would end more than the effect becomes a RuntimeError, as it does in a coroutine: a future can't be given a
    StopIteration, so nobody would hear of it, and a SystemExit would end the node."""
    try:
        return fn(*args, **kwargs)
    except (StopIteration, SystemExit) as error:
        raise RuntimeError(f"the effect raised {type(error).__name__}") from error


def reused(key: str, known: str, name: str) -> KeyReused:
    """The error of a key that is given to two effects, of which `known` was first."""
    what = f"{known} with other arguments" if known == name else f"{known}, not {name}"
    found = f"once({key!r}) stands for {what} in this call already; the second was not run"
    return misused(KeyReused(f"{found}; give each effect its own key"))
