"""Finds where classes of two releases would meet: code of a call would take an object of the present release, or one
that present code gives it, for something else."""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections import deque
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from framehold_store.named import Known, Named

from .authors import Authors
from .instructions import names_in
from .loading import CachedFunction, Unpacked
from .reach import Reach
from .sources import ModuleSources

MAX_HELD = 10_000
"""Objects of one live object that are looked at."""
_ADVICE = "which is another class in this release"


def check(loaded: Unpacked, unchanged: Known, authors: Authors, sources: ModuleSources) -> None:
    """Compare what was loaded with the process.

    Raises:
        TypeError: a live object of the process holds an object of a class that was made again, or code that leads to
            one; or a text in kept code names one, which libraries look up in the present module.
    """
    doubled: dict[type, Any] = {}
    for named, made in loaded.known.items():
        present = named.found() if isinstance(made, type) else None
        if isinstance(present, type) and present is not made:
            doubled[present] = made
    if doubled:
        _check_texts(loaded, {*doubled, *doubled.values()})
        _check_live(loaded, doubled, {id(found) for found in unchanged.values()}, authors, sources)


def _check_texts(loaded: Unpacked, changed: set[Any]) -> None:
    """Look at the texts in the bodies of classes that kept functions make: any may be an annotation."""
    for code, space in loaded.functions:
        present = sys.modules.get(space.module)
        for body in _bodies(code):
            for name in {name for text in body.co_consts if isinstance(text, str) for name in names_in(text)}:
                for kind in (*_parts(space.get(name)), *_parts(getattr(present, name, None))):
                    if isinstance(kind, type) and kind in changed:
                        raise TypeError(f"a class in a function has a text that names {_name(kind)}, {_ADVICE}")


def _bodies(code: CodeType) -> Iterator[CodeType]:
    """The bodies of classes in a code object."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if not inner.co_flags & inspect.CO_OPTIMIZED:
                yield inner
            yield from _bodies(inner)


def _parts(value: Any) -> Iterator[Any]:
    """An object, with the arguments of a generic class, or what is in a module."""
    yield value
    if isinstance(value, ModuleType):
        yield from vars(value).values()
    for part in typing.get_args(value):
        yield from _parts(part)


def _check_live(
    loaded: Unpacked, doubled: dict[type, Any], clean: set[int], authors: Authors, sources: ModuleSources
) -> None:
    """Look at what live objects hold, and at what the code that they hold leads to: more live objects among it. `clean`
    has the `id` of code that leads to nothing that was made again."""
    waiting, seen = dict(loaded.live), set[Named]()
    while waiting:
        named, found = waiting.popitem()
        if named in seen:
            continue
        seen.add(named)
        code: list[Any] = []
        for inner in _held(found, authors):
            if inner is found and loaded.known.get(named, found) is not found:
                # The code of the call has it with the class that it had.
                continue
            kind = inner if isinstance(inner, type | FunctionType) else type(inner)
            changed = next((base for base in getattr(kind, "__mro__", ()) if base in doubled), None)
            if changed is not None:
                advice = f"{_ADVICE}; keep such objects in a constant, or in a store"
                raise TypeError(f"{named.module}.{named.name} holds an object of {_name(changed)}, {advice}")
            if id(kind) not in clean and authors.wrote(kind):
                code.append(kind)
        reach = Reach(code, authors, sources)
        changed = next((kind for kind in doubled if id(kind) in reach.names), None)
        if changed is not None:
            raise TypeError(f"{named.module}.{named.name} holds code that leads to {_name(changed)}, {_ADVICE}")
        clean |= reach.names.keys()
        waiting |= {other: other.found() for other in reach.live.values()}


def _held(found: Any, authors: Authors) -> Iterator[Any]:
    """What an object consists of: the items of containers, the attributes of objects of the author's classes, and the
    functions. At most MAX_HELD, so that a large cache costs little."""
    seen: dict[int, Any] = {}
    waiting = [found]
    while waiting and len(seen) < MAX_HELD:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, str | bytes | int | float | ModuleType):
            continue
        seen[id(item)] = item
        yield item
        if isinstance(item, dict):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set | frozenset | deque):
            waiting += item
        elif isinstance(item, MethodType):
            waiting += [item.__func__, item.__self__]
        elif isinstance(item, functools.partial):
            waiting += [item.func, *item.args, *item.keywords.values()]
        elif isinstance(item, CachedFunction):
            waiting.append(item.__wrapped__)
        if not isinstance(item, type | FunctionType) and (item is found or authors.own(type(item).__module__)):
            waiting += getattr(item, "__dict__", {}).values()
            slots = (name for base in type(item).__mro__ for name in vars(base).get("__slots__", ()))
            waiting += [getattr(item, name, None) for name in slots if not name.startswith("__")]


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
