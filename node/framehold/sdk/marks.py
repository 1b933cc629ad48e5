"""Marks: the promises of an author about a handler. They are attributes of the function, in any order, above or below
`@mcp.tool()`.

A mark is found behind the wrappers of a function: those of `functools.wraps`, pydantic's `validate_call`, partials,
bound methods, callable objects. If one option is set twice, the outermost counts.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import BuiltinFunctionType, FunctionType
from typing import Any, Literal, TypeVar

Fn = TypeVar("Fn", bound=Callable[..., Any])

MAX_TTL_SECONDS = 86_400.0 * 7
"""The longest time within which a question may be answered. The setting TOKEN_TTL has the same limit."""
_ATTRIBUTE = "__framehold_marks__"
PARTS = "__framehold_parts__"
"""The attribute in which a function that is built of others names them, as a tuple. It reaches their code."""
MAX_WRAPPERS = 64
"""How many wrappers are followed: a proxy may have an endless chain of `__wrapped__`."""
_NOTHING: Any = object()


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of a handler.

    - `reentrant`: whether its author promises that entering it again is safe
    - `strategy`: None means that the setting STRATEGY decides
    - `ttl`: seconds within which its questions may be answered; None means the setting TOKEN_TTL
    - `keep_code`: whether its code may be kept for its calls (setting KEEP_CODE)
    """

    reentrant: bool = False
    strategy: Literal["hold", "replay"] | None = None
    ttl: float | None = None
    keep_code: bool = True


_UNMARKED = Marks()
_known: weakref.WeakKeyDictionary[Any, Marks] = weakref.WeakKeyDictionary()


def reentrant(fn: Fn = _NOTHING, /) -> Fn:
    """Promise that entering this handler again is safe, as happens when its node dies or its frame is dropped.

    The promise: every effect, also below the last await, is pure or under `once`. A crashed round runs its tail again.
    Besides, the handler asks the same things in the same order when it is given the same answers. The promise covers
    what stands round the function as well: its decorators are entered again with it.

    A handler that is not marked is entered once per call, and its calls die with their node.

    Returns:
        The same function, marked.

    Raises:
        TypeError: it can't be marked, or the decorator was written with parentheses.
    """
    if fn is _NOTHING:
        raise TypeError("@framehold.reentrant is written without parentheses; nothing was marked")
    return _mark(fn, "@framehold.reentrant", reentrant=True)


def options(
    fn: Any = _NOTHING,
    /,
    *,
    strategy: Literal["hold", "replay"] | None = None,
    ttl: float | None = None,
    keep_code: Literal[False] | None = None,
) -> Callable[[Fn], Fn]:
    """Set for one handler what settings decide for all handlers.

    Args:
        strategy: "hold" keeps its frames in memory; "replay" keeps nothing and re-enters it with each answer, so it
            must be marked re-entrant too. None: FRAMEHOLD_STRATEGY.
        ttl: seconds within which each of its questions may be answered, up to 7 days. None: FRAMEHOLD_TOKEN_TTL.
        keep_code: False: the store does not keep its code, so that a call which has lost its node is carried on by the
            code that the next node has. None: FRAMEHOLD_KEEP_CODE.

    Raises:
        ValueError: one of them is wrong, or none is given.
        TypeError: the decorated object can't be marked, or the decorator was written without parentheses.
    """
    name = "@framehold.options"
    if fn is not _NOTHING:
        raise TypeError(f"{name} is written with parentheses, as {name}(ttl=60); nothing was marked")
    if strategy is None and ttl is None and keep_code is None:
        ways = 'strategy="hold", strategy="replay", ttl=seconds or keep_code=False'
        raise ValueError(f"{name}() decides nothing; give it {ways}")
    if strategy not in ("hold", "replay", None):
        raise ValueError(f'{name}: strategy must be "hold" or "replay", not {strategy!r}; nothing was marked')
    chosen: dict[str, Any] = {"strategy": strategy} if strategy is not None else {}
    if ttl is not None:
        chosen["ttl"] = _seconds(ttl, name)
    if keep_code is not None:
        if keep_code is not False:
            why = "the code of each marked handler is kept, unless FRAMEHOLD_KEEP_CODE=false"
            raise ValueError(f"{name}: keep_code must be False, not {keep_code!r}: {why}; nothing was marked")
        chosen["keep_code"] = False
    return lambda marked: _mark(marked, name, **chosen)


def _seconds(ttl: Any, name: str) -> float:
    if not isinstance(ttl, int | float) or isinstance(ttl, bool) or not 0 < ttl <= MAX_TTL_SECONDS:
        limits = f"more than 0 and at most {MAX_TTL_SECONDS:.0f} seconds (7 days)"
        raise ValueError(f"{name}: ttl must be {limits}, not {ttl!r}; nothing was marked")
    return float(ttl)


def marks_of(fn: Any) -> Marks:
    """The marks of a handler, whatever wrappers stand before its function."""
    try:
        known = _known.get(fn)
    except TypeError:
        # An object that is not hashable, or that weak references can't refer to: it is searched each time.
        return _found(fn)
    if known is None:
        known = _known[fn] = _found(fn)
    return known


def _found(fn: Any) -> Marks:
    found = _UNMARKED
    for inner in _unwrapped(fn):
        own = getattr(inner, _ATTRIBUTE, None)
        if isinstance(own, Marks):
            found = _under(found, own)
    return found


def _under(outer: Marks, inner: Marks) -> Marks:
    return Marks(
        outer.reentrant or inner.reentrant,
        outer.strategy or inner.strategy,
        inner.ttl if outer.ttl is None else outer.ttl,
        outer.keep_code and inner.keep_code,
    )


def _unwrapped(fn: Any) -> Iterator[Any]:
    """A handler, the callable that it wraps, and so on, down to the function that its author wrote."""
    for _ in range(MAX_WRAPPERS):
        yield fn
        fn = _behind(fn)
        if fn is None:
            return


def _behind(fn: Any) -> Any:
    """The callable that `fn` wraps, or the `__call__` function of an object. None if `fn` is a plain function."""
    if isinstance(fn, functools.partial):
        return fn.func
    for attribute in ("__wrapped__", "raw_function", "__func__"):
        inner = getattr(fn, attribute, None)
        if callable(inner):
            return inner
    call = type(fn).__call__ if callable(fn) else None
    return call if isinstance(call, FunctionType) and not isinstance(fn, FunctionType) else None


def _mark(fn: Fn, name: str, **values: Any) -> Fn:
    """Set `values` in the marks of `fn`. `name` is the decorator's name in errors."""
    # A static, class or bound method: all references to it share its function.
    target = getattr(fn, "__func__", fn)
    if isinstance(target, type) or not callable(target):
        raise TypeError(
            f"{name} goes on a function, not on {_named(fn)}; nothing was marked; "
            "put it directly on the function, below all other decorators"
        )
    own = target.__dict__.get(_ATTRIBUTE, _UNMARKED) if hasattr(target, "__dict__") else _UNMARKED
    try:
        setattr(target, _ATTRIBUTE, replace(own, **values))
    except (AttributeError, TypeError, ValueError):
        raise TypeError(
            f"{name} can't mark {_named(fn)}, which takes no attributes; nothing was marked; "
            "wrap it in a function of your own and mark that"
        ) from None
    # The marks of its wrappers have changed too.
    _known.clear()
    return fn


def _named(fn: Any) -> str:
    if isinstance(fn, type):
        return f"the class {fn.__name__} (its __call__ can be marked)"
    if isinstance(fn, BuiltinFunctionType):
        return f"the built-in {fn.__name__}"
    return f"an object of type {type(fn).__name__}"
