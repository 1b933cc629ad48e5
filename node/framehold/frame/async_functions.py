"""Which callables are async. Asked for effects of `once`, for an author's tool steps and for handlers of a server."""

from __future__ import annotations

import functools
import inspect
from typing import Any


def is_async(fn: Any) -> bool:
    """Whether a call of `fn` returns a coroutine, by the SDK's rule.

    True for a coroutine function, for an object whose class has an async `__call__`, and for a partial of one of these.
    False for an object that can't be called."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or (callable(fn) and inspect.iscoroutinefunction(type(fn).__call__))
