"""Loads the code of a handler that another process has written.

The law: **callers give `load` only bytes whose seal was verified.** Loading runs code.

The stored bytes refer to the functions of this module, so they must keep their names and their arguments.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import pickle
import typing
from types import FunctionType, ModuleType
from typing import Any


class Part(ModuleType):
    """A module of the author as kept code sees it: the names that the code uses, as they were. Any other name is that
    of the present module."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


CachedFunction: Any = type(functools.lru_cache(lambda: None))
"""The class of what `functools.lru_cache` returns."""


class _Plain:
    pass


def is_plain(kind: type) -> bool:
    """Whether objects of a class have all their state in their `__dict__`, so that an object of another class can share
    it."""
    own = kind.__mro__[:-1]
    return kind.__basicsize__ == _Plain.__basicsize__ and not any(
        {"__slots__", "__new__"} & vars(base).keys() for base in own
    )


class _Loader(pickle.Unpickler):
    def persistent_load(self, place: tuple[str, str]) -> Any:
        """The object of this process with this name. Raises AttributeError or ImportError if there is none."""
        module, name = place
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found


def load(data: bytes) -> Any:
    """Load what `writing.write` has written. This fleet sealed the bytes, and the caller has verified the seal.

    Raises:
        Exception: anything: a module or a name that it needs is missing here, or code that runs meanwhile raises.
    """
    return _Loader(io.BytesIO(data)).load()


def resolve_annotations(fn: Any) -> None:
    """Replace annotations that are texts by what they mean in the function's own globals. Libraries look such texts up
    in the module of the function's name, which is the present one. Annotations that mean nothing stay texts."""
    fn = getattr(fn, "__func__", fn)
    while isinstance(fn, FunctionType):
        with contextlib.suppress(Exception):
            fn.__annotations__ = typing.get_type_hints(fn, include_extras=True)
        fn = getattr(fn, "__wrapped__", None)


def part(name: str) -> Part:
    """An empty part of a module; `fill` gives it its names."""
    return Part(name)


def fill(module: Part, names: dict[str, Any]) -> None:
    """Give a part of a module its names."""
    vars(module).update(names)


def cached(fn: Any, parameters: dict[str, Any]) -> Any:
    """A function with a cache of its own, as `functools.lru_cache` makes it."""
    return functools.lru_cache(**parameters)(fn)


def shared(kind: type, present: Any) -> Any:
    """An object with the methods of `kind`, its class when the code was kept, and the state of the present object. Both
    have one `__dict__`: what one sets, the other sees. The present object itself if it is of another layout now."""
    if not is_plain(type(present)):
        return present
    made: Any = object.__new__(kind)
    made.__dict__ = present.__dict__
    return made
