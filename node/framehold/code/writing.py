"""Writes the code of a handler as bytes, as its `Reach` has decided: by value, by name, or not at all.

cloudpickle writes functions and classes by value. Here these are those of the author's modules. A function gets
exactly the globals that the walk has found for it, so that what was digested is what is written.
"""

from __future__ import annotations

import io
import operator
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

import cloudpickle

from . import loading
from .reach import REGISTRATION, Live, Reach, generic_of


class _Writer(cloudpickle.Pickler):  # type: ignore[misc]
    """Writes one handler. `Live` objects become references that the loading process resolves."""

    def __init__(self, file: io.BytesIO, reach: Reach) -> None:
        super().__init__(file, 5)
        self._reach = reach

    def persistent_id(self, item: Any) -> tuple[str, str] | None:
        """The name of an object that goes by name; None if it goes by value."""
        live = item if type(item) is Live else self._reach.live.get(id(item))
        if live is None or id(item) in self._reach.shared:
            return None
        return live.module, live.name

    def reducer_override(self, item: Any) -> Any:
        """How an object is made again."""
        reach = self._reach
        if id(item) in reach.shared:
            return loading.shared, (reach.shared[id(item)], reach.live[id(item)])
        if isinstance(item, ModuleType) and id(item) in reach.slices:
            return loading.part, (item.__name__,), reach.slices[id(item)], None, None, loading.fill
        if isinstance(item, loading.CachedFunction):
            return loading.cached, (item.__wrapped__, dict(item.cache_parameters()))
        if (generic := generic_of(item)) is not None:
            return operator.getitem, generic
        reduced = super().reducer_override(item)
        if isinstance(item, FunctionType) and isinstance(reduced, tuple):
            # cloudpickle's state of a function: its attributes, and its members with the globals that it uses.
            reduced[2][1]["__globals__"] = reach.globals.get(id(item.__globals__), {})
            reduced[2][0].pop(REGISTRATION, None)
        return reduced


def write(handler: Any, reach: Reach) -> bytes:
    """A handler as bytes that `loading.load` reads.

    Raises:
        Exception: anything that the code of the author's classes raises, or that a library raises for an object that
            can't be pickled.
    """
    file = io.BytesIO()
    with _by_value(reach.modules):
        _Writer(file, reach).dump(handler)
    return file.getvalue()


@contextmanager
def _by_value(names: set[str]) -> Iterator[None]:
    """Have cloudpickle write the functions and classes of these modules by value."""
    found = [sys.modules[name] for name in names if name in sys.modules and name != "__main__"]
    mine = [module for module in found if module.__name__ not in cloudpickle.list_registry_pickle_by_value()]
    for module in mine:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in mine:
            cloudpickle.unregister_pickle_by_value(module)
