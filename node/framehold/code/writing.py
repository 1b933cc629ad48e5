"""Writes the code of a handler as bytes, as its `Reach` has decided: by value, by name, or not at all.

cloudpickle writes functions and classes by value. Here these are those of the author's modules. A function gets
exactly the globals that the walk has found for it, so that what was digested is what is written. What has a name is
written so that the loading process decides whether it makes it or has it.
"""

from __future__ import annotations

import enum
import functools
import io
import operator
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import cloudpickle

from framehold_store.named import Named
from framehold_store.pickles import generic_of

from . import loading
from .follows import REGISTRATION
from .pieces import state_of
from .reach import Reach

_CHEAP = frozenset(
    {str, int, bytes, bool, float, tuple, list, dict, set, frozenset, type(None), CodeType, FunctionType}
)
"""Types whose objects are never known by their identity."""
_BY_VALUE = 6
"""Length of the tuple that cloudpickle gives for a function or a class by value; by name it gives none, or a shorter
one."""
_CODE = (FunctionType, type, ModuleType)
_OF_MODULE = ("__package__", "__name__", "__path__")
"""What relative imports in a function need."""


class LeftOut(NamedTuple):
    """What is left to the loading process, as a reference in the bytes:

    - `live`: the object that it has under this name
    - `bind`: takes globals and names with their values, and puts these there
    - `globals`: takes the names of live objects of this module, and those of them that bodies of classes use, and gives
      the globals of its functions
    - `make`: takes a function and its arguments, and gives the object of this name: its own, or what the function makes
    - `fill`: takes an object that was made, a function and a state, and calls the function unless the object is its own
    - `shared`: takes a class and a live object, and gives an object of that class with the state of the other
    """

    what: str
    module: str
    name: str

    def __call__(self) -> None:
        """Do nothing: pickle wants a function where this stands."""


class _Names(NamedTuple):
    """Globals, and names that they get."""

    space: loading.Globals
    values: dict[str, Any]


class _Early(NamedTuple):
    """Attributes of a class that it gets before the others: those may be tables that need its methods."""

    kind: type
    attributes: dict[str, Any]


def _in_two(kind: type, attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a class, functions first."""
    functions = {name: value for name, value in attributes.items() if isinstance(value, FunctionType)}
    rest = {name: value for name, value in attributes.items() if name not in functions}
    return {loading.EARLY: _Early(kind, functions), **rest}


class _Writer(cloudpickle.Pickler):  # type: ignore[misc]
    """Writes one handler."""

    def __init__(self, file: io.BytesIO, reach: Reach) -> None:
        super().__init__(file, 5)
        self._reach = reach
        self._spaces = {
            number: _globals(space, reach.globals[number], frozenset(name for of, name in reach.bodies if of == number))
            for number, space in reach.spaces.items()
        }
        """The globals that functions get, by the `id` of those that they have. They are written empty."""

    def persistent_id(self, item: Any) -> tuple[str, str, str] | None:
        """What the loading process has itself; None if it goes by value."""
        kind = type(item)
        if kind is LeftOut:
            return tuple(item)
        if kind is Named:
            return ("live", *item)
        live = self._reach.live.get(id(item))
        if live is not None and id(item) not in self._reach.shared:
            return ("live", *live)
        if kind in _CHEAP or live is not None:
            return None
        named = self._reach.sentinels.of(item)
        return None if named is None else ("live", *named)

    def reducer_override(self, item: Any) -> Any:
        """How an object is made again."""
        reach = self._reach
        if id(item) in reach.shared:
            live = reach.live[id(item)]
            return LeftOut("shared", *live), (reach.shared[id(item)], live)
        if isinstance(item, ModuleType) and id(item) in reach.slices:
            return loading.part, (item.__name__,), reach.slices[id(item)], None, None, loading.fill
        if isinstance(item, _Early):
            return self._early(item)
        if isinstance(item, functools.cached_property):
            return loading.cached_property, (type(item), item.func, item.attrname)
        if isinstance(item, property) and type(item) is not property:
            return type(item), (item.fget, item.fset, item.fdel)
        if isinstance(item, loading.CachedFunction):
            return self._named(item, (loading.cached, (item.__wrapped__, dict(item.cache_parameters()))))
        if reach.is_generic(item):
            return self._named(item, (loading.generic, loading.implementations(item)))
        if isinstance(item, loading.Globals):
            names = (tuple(sorted(item.live)), tuple(sorted(item.bodies)))
            return LeftOut("globals", item.module, ""), names, None, None, iter(item.items())
        if isinstance(item, _Names):
            return LeftOut("bind", "", ""), tuple(item)
        if (generic := generic_of(item)) is not None:
            return operator.getitem, generic
        reduced = super().reducer_override(item)
        if not isinstance(reduced, tuple) or len(reduced) < _BY_VALUE:
            return reduced
        if isinstance(item, FunctionType):
            reduced = self._function(item, reduced)
        elif isinstance(item, type):
            reduced[2][0].update(reach.attributes.get(id(item), {}))
            reduced = self._enum(item, reduced) if issubclass(item, enum.Enum) else self._class(item, reduced)
        return self._named(item, reduced)

    def _early(self, item: _Early) -> Any:
        """Attributes of a class, unless it is the loading process's own: that has its own."""
        named = self._reach.names.get(id(item.kind))
        if named is None:
            return loading.fill_class, tuple(item)
        return LeftOut("fill", *named), (item.kind, (loading.fill_class, item.attributes))

    def _named(self, item: Any, reduced: Any) -> Any:
        """Leave an object that has a name to the loading process."""
        named = self._reach.names.get(id(item))
        if named is None:
            return reduced
        build, arguments, *rest = reduced
        arguments = (build, *arguments)
        if not rest:
            return LeftOut("make", *named), arguments
        state, _, _, setter = rest
        return LeftOut("make", *named), arguments, (setter, state), None, None, LeftOut("fill", *named)

    def _function(self, item: FunctionType, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
        """A function whose globals get their names later."""
        if not self._reach.has_seen(item):
            raise TypeError(f"it leads to {item.__module__}.{item.__qualname__} in a way that can't be followed")
        make, (code, _, *others), (attributes, members), *rest = reduced
        members["__globals__"] = {}
        attributes.pop(REGISTRATION, None)
        space = id(item.__globals__)
        if space not in self._spaces:
            self._spaces[space] = _globals(item.__globals__, {}, frozenset())
        return make, (code, self._spaces[space], *others), (attributes, members), *rest

    def names(self) -> Iterator[_Names]:
        """The names of all globals: code first, since constants may need it when they are made again."""
        for is_code in (True, False):
            for space, found in self._reach.globals.items():
                values = {name: value for name, value in found.items() if type(value) is not Named}
                yield _Names(
                    self._spaces[space],
                    {name: value for name, value in values.items() if isinstance(value, _CODE) is is_code},
                )

    def _class(self, item: type, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
        """A class, with real slots."""
        _, (kind, name, bases, namespace, *_), (attributes, _), *_ = reduced
        slots = vars(item).get("__slots__")
        if isinstance(slots, str | tuple | list | dict) and not issubclass(item, tuple):
            namespace = {**namespace, "__slots__": slots}
        arguments = (kind, name, bases, namespace, self._reach.maker(item))
        return loading.new_class, arguments, _in_two(item, attributes), None, None, loading.fill_class

    def _enum(self, item: type[enum.Enum], reduced: tuple[Any, ...]) -> tuple[Any, ...]:
        """An enum, with its aliases, and with what the constructor of its members set."""
        _, (bases, name, qualname, _, module, *_), (attributes, _), *_ = reduced
        values = {member: found.value for member, found in item.__members__.items()}
        own = {member: state_of(found) for member, found in item.__members__.items()}
        arguments = (bases, name, values, module, qualname)
        return loading.new_enum, arguments, (attributes, own), None, None, loading.fill_enum


def write(handler: Any, reach: Reach) -> bytes:
    """A handler as bytes that `loading.load` reads.

    Raises:
        Exception: anything that the code of the author's classes raises, or that a library raises for an object that
            can't be pickled.
    """
    file = io.BytesIO()
    with _by_value(reach.modules):
        writer = _Writer(file, reach)
        writer.dump([handler, *writer.names()])
    return file.getvalue()


def _globals(space: dict[str, Any], found: dict[str, Any], bodies: frozenset[str]) -> loading.Globals:
    """The globals of a module's kept functions. Names of live objects are all that they have yet, and the names that
    say which module it is. `bodies` are the names that bodies of classes use."""
    live = frozenset(name for name, value in found.items() if type(value) is Named)
    made = loading.Globals(str(space.get("__name__", "")), live, live & bodies)
    made.update({name: space[name] for name in _OF_MODULE if name in space})
    return made


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
