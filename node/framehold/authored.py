"""What an author's function says of itself, and how it is called: on the loop where it is async, else in a thread, as
the SDK calls such a tool."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

import anyio.to_thread
from mcp.server.context import ServerRequestContext

Function = Callable[..., Any]


def signature(fn: Function, whose: str) -> inspect.Signature:
    """Its parameters, their types resolved. `whose` names it in errors.

    Raises:
        TypeError: it is no function with a signature, or a type that it names is not there.
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
    """The parameter that takes the request's context, by its type: the first there is."""
    return next((name for name, item in found.parameters.items() if _is_context(item.annotation)), None)


def _is_context(annotation: Any) -> bool:
    """Whether it is, or has among its parts, the context of an MCPServer, a low-level server or FastMCP. The first and
    the last are told by what they have: FastMCP need not be installed."""
    kinds = (annotation, typing.get_origin(annotation), *typing.get_args(annotation))
    classes = [kind for kind in kinds if isinstance(kind, type)]
    return any(issubclass(kind, ServerRequestContext) or hasattr(kind, "request_context") for kind in classes)


def is_async(fn: Function) -> bool:
    """As the SDK sees it."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)


async def run(fn: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call it, whichever it is."""
    if is_async(fn):
        return await fn(*args, **kwargs)
    return await anyio.to_thread.run_sync(functools.partial(fn, *args, **kwargs))
