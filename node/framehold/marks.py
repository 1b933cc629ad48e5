"""What an author promises of a handler: marks on the function itself, in any order, above or below `@mcp.tool()`.

A mark is found behind whatever stands before the function: wrappers made with `functools.wraps`, pydantic's
`validate_call`, partials, bound methods, callable objects. Where one thing is said twice, the outermost counts.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any, Literal, TypeVar

from framehold_core import journal

Fn = TypeVar("Fn", bound=Callable[..., Any])

LONGEST = 86_400.0 * 7
"""Seconds that a question may be answered in, at most: as for the setting TOKEN_TTL."""
_ATTRIBUTE = "__framehold_marks__"
PARTS = "__framehold_parts__"
"""Where a function that was built of others names them, as a tuple: their code is its own too."""
_DEEPEST = 64
"""How many wrappers are looked through: a proxy may answer for ever that it wraps another one."""
_NOTHING: Any = object()


@dataclass(frozen=True, slots=True)
class Marks:
    """What is promised of a handler. `strategy` None: the setting STRATEGY decides. `ttl`: for how many seconds a
    question of it may be answered; None: the setting TOKEN_TTL. `code` names the function's own code, not that of what
    it calls but for a ToolBuilder's steps, as this release of Python compiles it; empty where there is none."""

    reentrant: bool = False
    strategy: Literal["hold", "replay"] | None = None
    ttl: float | None = None
    code: str = ""


_UNMARKED = Marks()
_known: weakref.WeakKeyDictionary[Any, Marks] = weakref.WeakKeyDictionary()
_codes: weakref.WeakKeyDictionary[FunctionType, str] = weakref.WeakKeyDictionary()


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


def hold(
    fn: Any = _NOTHING, /, *, strategy: Literal["hold", "replay"] | None = None, ttl: float | None = None
) -> Callable[[Fn], Fn]:
    """Decide for one handler what settings decide for all.

    Args:
        strategy: "hold" keeps its frames in memory; "replay" keeps nothing and re-enters it with each answer, so it
            must be marked re-entrant too. None: FRAMEHOLD_STRATEGY.
        ttl: seconds that each of its questions may be answered in, up to 7 days. None: FRAMEHOLD_TOKEN_TTL.

    Raises:
        ValueError: one of them is wrong, or neither is given.
        TypeError: what it is put on can't be marked, or the decorator was written without parentheses.
    """
    name = "@framehold.hold"
    if fn is not _NOTHING:
        raise TypeError(f"{name} is written with parentheses, as {name}(ttl=60); nothing was marked")
    if strategy is None and ttl is None:
        raise ValueError(f'{name}() decides nothing; give it strategy="hold", strategy="replay" or ttl=seconds')
    if strategy not in ("hold", "replay", None):
        raise ValueError(f'{name}: strategy must be "hold" or "replay", not {strategy!r}; nothing was marked')
    said: dict[str, Any] = {"strategy": strategy} if strategy is not None else {}
    if ttl is not None:
        said["ttl"] = _seconds(ttl, name)
    return lambda marked: _mark(marked, name, **said)


def _seconds(ttl: Any, name: str) -> float:
    if not isinstance(ttl, int | float) or isinstance(ttl, bool) or not 0 < ttl <= LONGEST:
        limits = f"more than 0 and at most {LONGEST:.0f} seconds (7 days)"
        raise ValueError(f"{name}: ttl must be {limits}, not {ttl!r}; nothing was marked")
    return float(ttl)


def marks_of(fn: Any) -> Marks:
    """All that is promised of a handler, whatever stands before its function."""
    try:
        known = _known.get(fn)
    except TypeError:
        # Not hashable, or nothing that can be referred to weakly: found anew each time.
        return _found(fn)
    if known is None:
        known = _known[fn] = _found(fn)
    return known


def _found(fn: Any) -> Marks:
    found, inner = _UNMARKED, fn
    parts: tuple[Any, ...] = ()
    for inner in _chain(fn):
        own, made = getattr(inner, _ATTRIBUTE, None), getattr(inner, PARTS, None)
        if isinstance(own, Marks):
            found = _under(found, own)
        if type(made) is tuple:
            parts = made
    codes = [_code(inner), *(_code([*_chain(part)][-1]) for part in parts)]
    return replace(found, code=journal.digest("\n".join(codes).encode()) if parts else codes[0])


def _under(outer: Marks, inner: Marks) -> Marks:
    return Marks(
        outer.reentrant or inner.reentrant,
        outer.strategy or inner.strategy,
        inner.ttl if outer.ttl is None else outer.ttl,
    )


def _chain(fn: Any) -> Iterator[Any]:
    """A handler, what it stands for, and so on, down to the function that its author wrote."""
    for _ in range(_DEEPEST):
        yield fn
        fn = _behind(fn)
        if fn is None:
            return


def _behind(fn: Any) -> Any:
    """What a callable stands for: what it wraps, or the function that runs when it is called. None for a function."""
    if isinstance(fn, functools.partial):
        return fn.func
    for attribute in ("__wrapped__", "raw_function", "__func__"):
        inner = getattr(fn, attribute, None)
        if callable(inner):
            return inner
    call = type(fn).__call__ if callable(fn) else None
    return call if isinstance(call, FunctionType) and not isinstance(fn, FunctionType) else None


def _mark(fn: Fn, name: str, **said: Any) -> Fn:
    # A static or class method, also a bound one: the function is what all who reach it share.
    target = getattr(fn, "__func__", fn)
    if isinstance(target, type) or not callable(target):
        raise TypeError(
            f"{name} goes on a function, not on {_named(fn)}; nothing was marked; "
            "put it directly on the function, below all other decorators"
        )
    own = target.__dict__.get(_ATTRIBUTE, _UNMARKED) if hasattr(target, "__dict__") else _UNMARKED
    try:
        setattr(target, _ATTRIBUTE, replace(own, **said))
    except (AttributeError, TypeError, ValueError):
        raise TypeError(
            f"{name} can't mark {_named(fn)}, which takes no attributes; nothing was marked; "
            "wrap it in a function of your own and mark that"
        ) from None
    # Whoever wraps this function has changed with it.
    _known.clear()
    return fn


def _named(fn: Any) -> str:
    if isinstance(fn, type):
        return f"the class {fn.__name__} (its __call__ can be marked)"
    if isinstance(fn, BuiltinFunctionType):
        return f"the built-in {fn.__name__}"
    return f"an object of type {type(fn).__name__}"


def _code(fn: Any) -> str:
    if not isinstance(fn, FunctionType):
        return ""
    known = _codes.get(fn)
    if known is None:
        known = _codes[fn] = journal.digest(_written(fn.__code__))
    return known


def _written(value: Any) -> bytes:
    """A constant of a code object as bytes that are the same in every process."""
    if isinstance(value, CodeType):
        parts = [value.co_code, *map(_written, value.co_consts), repr(value.co_names).encode()]
    elif isinstance(value, tuple):
        parts = [b"tuple", *map(_written, value)]
    elif isinstance(value, frozenset):
        # Its order changes with each process's hash seed.
        parts = [b"frozenset", *sorted(map(_written, value))]
    else:
        return f"{type(value).__name__} {value!r}".encode("utf-8", "surrogatepass")
    return b"".join(b"%d:%b" % (len(part), part) for part in parts)
