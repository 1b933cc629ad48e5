"""Which values of the author's modules are constants, by the sources of all of them."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import logging
import pathlib
import sys
import uuid
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple

import pydantic

from framehold_store.named import Named
from framehold_store.pickles import is_typing

from .authors import Authors, module_of
from .constants import Source, arguments_of, source_of
from .facts import changed_in_place, defaults_in
from .loading import CachedFunction
from .pieces import Piece

logger = logging.getLogger(__name__)

_NO_SOURCE = (
    "the module %r has no source: in calls that go on with their code, its constants are those of the present process"
)
VALUES = (
    *(decimal.Decimal, fractions.Fraction, uuid.UUID, pathlib.PurePath),
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo),
)
"""Types whose objects are known by their `repr`."""
_DATA = (int, float, complex, str, bytes, bytearray, type(None), tuple, list, dict, set, frozenset, *VALUES)
_TUPLE_FIELD: Any = type(vars(Piece)["names"])
_CODE = (
    _TUPLE_FIELD,
    *(FunctionType, BuiltinFunctionType, type, enum.Enum, logging.Logger, CachedFunction, staticmethod, classmethod),
    *(property, functools.cached_property, functools.singledispatchmethod, functools.partialmethod),
)
"""What says itself how it goes along."""
_DESCRIBING = (dataclasses.field, pydantic.Field, pydantic.PrivateAttr)
"""Functions of libraries that only say what a field is."""
_OF_PROCESS = frozenset(
    {"os", "posix", "time", "uuid", "random", "secrets", "socket", "_socket", "platform", "getpass", "tempfile"}
)
"""Modules whose functions give what only one process has, or only at one time."""
_PURE = frozenset({"uuid3", "uuid5", "fspath", "fsencode", "fsdecode", "strptime", "mktime"})
"""Functions of these modules that give what follows from their arguments."""
_OF_PRESENT = frozenset({"now", "today", "utcnow", "cwd", "home"})
"""Methods of dates and of paths that do so."""


class Origin(enum.Enum):
    """Where a value comes from that the source assigns: an expression that always has the same value, and the value is
    that or another one now; what a process computes; or anything else."""

    FIXED = 1
    CHANGED = 2
    COMPUTED = 3
    OTHER = 4


class Given(NamedTuple):
    """A default of a function: its parameter, its value and its expression, the class that has the function, if any,
    and whether the function changes it."""

    name: str
    value: Any
    node: ast.expr | None
    kind: type | None
    is_changed: bool


class ModuleSources:
    """The sources of the author's modules in this process. All are read when the first is asked for."""

    def __init__(self, authors: Authors) -> None:
        self._authors = authors
        self._seen, self._own = (0, ""), list[str]()
        self._outside: dict[tuple[str, str], bool] = {}

    def of(self, module: str) -> Source | None:
        """The source of a module of the author; None if it is not his, or not imported."""
        found = self._read(module) if self._authors.own(module) else None
        if found is not None and found.is_missing:
            found.is_missing = False
            logger.warning(_NO_SOURCE, module)
        return found

    def _read(self, module: str) -> Source | None:
        found = sys.modules.get(module)
        return source_of(found) if isinstance(found, ModuleType) else None

    def is_constant(self, module: str, name: str, value: Any, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a global is a constant of the module of the author that it comes from. `seen` are the modules that
        led there by importing it."""
        source = self.of(module)
        if source is None or module in seen:
            return False
        if name in source.facts.assigned or name in source.facts.rebound:
            return source.is_constant(name) and not self._is_bound_outside(module, name)
        return any(
            getattr(sys.modules.get(home), named, source) is value
            and self.is_constant(home, named, value, seen | {module})
            for home, named in source.facts.homes(name)
        )

    def in_class(self, kind: type) -> dict[str, ast.expr]:
        """What the body of a class assigns; nothing if it has no source. What is meant for Python or a library may be
        another object afterwards."""
        source = self.of(kind.__module__)
        found = source.in_class(kind) if source else {}
        return {name: node for name, node in found.items() if not name.startswith("__") and name != "model_config"}

    def given(self, fn: FunctionType) -> Iterator[Given]:
        """The defaults of a function."""
        module, values = module_of(fn), fn.__defaults__ or ()
        count = fn.__code__.co_argcount
        parameters = fn.__code__.co_varnames[max(0, count - len(values)) : count]
        kind = Named(module, fn.__qualname__.rpartition(".")[0]).found()
        source = self.of(module)
        function = source.function(fn.__code__) if source else None
        nodes = defaults_in(function.args) if function else {}
        found = list(ast.walk(function)) if function else []
        changed = {node.id for node in map(changed_in_place, found) if isinstance(node, ast.Name)}
        extended = [node.target for node in found if isinstance(node, ast.AugAssign)]
        changed -= {
            node.id
            for node in found
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in extended
        }
        for name, value in {**dict(zip(parameters, values, strict=False)), **(fn.__kwdefaults__ or {})}.items():
            is_changed = isinstance(value, list | dict | set) and name in changed
            yield Given(name, value, nodes.get(name), kind if isinstance(kind, type) else None, is_changed)

    def binds_inside(self, fn: FunctionType, name: str) -> bool:
        """Whether a function binds this attribute of a function of its module, or of itself."""
        source, called = self.of(module_of(fn)), fn.__qualname__.rpartition("<locals>.")[2]
        return source is not None and name != "__wrapped__" and (called, name) in source.facts.stored_inside

    def origin(
        self, module: str, node: ast.expr | None, value: Any, kind: type | None, is_stored: bool = False
    ) -> Origin:
        """Where a value comes from that `node` assigns, in the body of `kind` or at the top of a module. `is_stored`
        says that code of the module binds it, or changes it: then it is no value of the source."""
        source = self.of(module)
        if source is None or node is None or isinstance(value, _CODE) or is_typing(value):
            return Origin.OTHER
        if source.is_fixed(node, kind):
            with contextlib.suppress(Exception):
                source.value_of(node, kind)
                return Origin.FIXED if source.holds(node, value, kind) else Origin.CHANGED
            return Origin.COMPUTED
        if is_stored and isinstance(node, ast.Call):
            return Origin.COMPUTED
        told = self._tells(source, node, kind, is_alone=not isinstance(value, _DATA))
        return Origin.OTHER if told else Origin.COMPUTED

    def _tells(self, source: Source, node: ast.expr, kind: type | None, *, is_alone: bool) -> bool:
        """Whether an expression makes an object of what stands there, as `Options()` and `Field(3, ge=1)` do. A
        function (`is_alone`: it is the whole of the expression) may have read something else."""
        if not isinstance(node, ast.Call):
            return False
        called = source.called(node.func)
        rest = [item for item in arguments_of(node) if not source.is_fixed(item, kind)]
        if not all(self._tells(source, item, kind, is_alone=False) for item in rest):
            return False
        if isinstance(called, type):
            return not _is_settings(called)
        return is_alone or any(called is known for known in _DESCRIBING)

    def reads_process(self, module: str, node: ast.AST | None, value: Any, kind: type | None) -> bool:
        """Whether an expression in the body of `kind` or at the top of a module reads what only this process has, e.g.
        its environment. An object has its parts by name; for data, what the names in it were assigned counts, too."""
        source = self.of(module)
        if source is None or node is None:
            return False
        if isinstance(node, ast.Call) and any(source.called(node.func) is known for known in _DESCRIBING):
            named = (item.value for item in node.keywords if item.arg == "default")
            node = next(iter(node.args), next(named, None))
        own = source.in_class(kind) if kind else {}
        return node is not None and self._reads(source, node, own if isinstance(value, _DATA) else None, set())

    def _reads(self, source: Source, node: ast.AST, own: dict[str, ast.expr] | None, seen: set[ast.AST]) -> bool:
        """`own` is what the class assigns; None where it does not count what names were assigned."""
        if isinstance(node, ast.Lambda) or node in seen:
            return False
        seen.add(node)
        if isinstance(node, ast.Call) and self._is_of_present(source, node.func):
            return True
        if isinstance(node, ast.Name | ast.Attribute) and type(source.called(node)).__module__ == "os":
            # It is an environment.
            return True
        if own is not None and isinstance(node, ast.Subscript) and (items := self._items(source, node)):
            return any(self._reads(home, found, {}, seen) for home, found in items)
        if own is not None and isinstance(node, ast.Name):
            behind = ((source, own[node.id]),) if node.id in own else self._assigned(source, node.id)
            if any(self._reads(home, found, {}, seen) for home, found in behind):
                return True
        return any(self._reads(source, inner, own, seen) for inner in ast.iter_child_nodes(node))

    def _is_of_present(self, source: Source, called: ast.expr) -> bool:
        if isinstance(called, ast.Attribute) and called.attr in _OF_PRESENT:
            owner = source.called(called.value)
            if isinstance(owner, type):
                return issubclass(owner, datetime.date | pathlib.PurePath)
        return _is_of_process(source.called(called))

    def _items(self, source: Source, node: ast.Subscript) -> list[tuple[Source, ast.expr]]:
        """What a table of the author has under a literal key."""
        if not isinstance(node.value, ast.Name) or not isinstance(node.slice, ast.Constant):
            return []
        return [
            (home, value)
            for home, table in self._assigned(source, node.value.id)
            if isinstance(table, ast.Dict)
            for key, value in zip(table.keys, table.values, strict=True)
            if isinstance(key, ast.Constant) and key.value == node.slice.value
        ]

    def _assigned(
        self, source: Source, name: str, seen: frozenset[str] = frozenset()
    ) -> Iterator[tuple[Source, ast.expr]]:
        """What is assigned to a global, here and in the modules of the author that it may be imported from. `seen` are
        the modules that led there."""
        yield from ((source, found) for found in source.facts.assigned.get(name, ()) if found is not None)
        for home, named in source.facts.homes(name):
            if home not in seen and (found := self.of(home)) is not None:
                yield from self._assigned(found, named, seen | {home})

    def _is_bound_outside(self, module: str, name: str) -> bool:
        """Whether another module of the author binds a global of this one, or changes what it holds."""
        seen = (len(sys.modules), next(reversed(sys.modules)))
        if seen != self._seen:
            # Modules were imported since.
            self._seen, self._outside = seen, {}
            self._own = [found for found in list(sys.modules) if self._authors.own(found)]
        place = (module, name)
        if (known := self._outside.get(place)) is None:
            sources = filter(None, map(self._read, self._own))
            known = self._outside[place] = any(source.binds(sys.modules[module], name) for source in sources)
        return known


def _is_settings(kind: type) -> bool:
    """Whether objects of a class read the environment by themselves."""
    return any(base.__name__ == "BaseSettings" for base in kind.__mro__)


def _is_of_process(found: Any) -> bool:
    """Whether what is called gives what only one process has, or is a class of such settings."""
    if isinstance(found, type):
        return _is_settings(found)
    owners = {getattr(found, "__module__", None), type(getattr(found, "__self__", None)).__module__}
    return not owners.isdisjoint(_OF_PROCESS) and getattr(found, "__name__", "") not in _PURE
