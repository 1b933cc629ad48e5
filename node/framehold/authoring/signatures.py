"""The signature of an author's function, and how the function is called: an async function on the loop, any other in a
thread, as the SDK calls such tools."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import anyio.to_thread

from ..frame.async_functions import is_async
from .handler_context import is_context_type

Function = Callable[..., Any]


def signature(fn: Function, whose: str) -> inspect.Signature:
    """The signature of `fn`, with its types resolved. `whose` names the function in errors.

    Raises:
        TypeError: `fn` is no function with a signature, or an annotation names a type that can't be found.
    """
    try:
        return inspect.signature(fn, eval_str=True)
    except NameError as error:
        raise TypeError(
            f"{whose}: {error}; nothing was registered; import the type at the top of its module, also at run time"
        ) from None
    except (TypeError, ValueError):
        raise TypeError(f"{whose} must be a function, not {type(fn).__name__}; nothing was registered") from None


def context_parameter(found: inspect.Signature) -> str | None:
    """The name of the first parameter whose type is that of a request's context; None where there is none."""
    return next((name for name, item in found.parameters.items() if is_context_type(item.annotation)), None)


async def run(fn: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call `fn`: an async function on this loop, another one in a thread."""
    if is_async(fn):
        return await fn(*args, **kwargs)
    return await anyio.to_thread.run_sync(functools.partial(fn, *args, **kwargs))
