"""Which globals of a module are constants, by its source.

A constant is assigned once, at the top of its module, from a literal or from other constants, and is never assigned in
a function. What is computed when the module is imported (a setting of the environment, a time, a connection) belongs to
the process that imported it. So does a container that is empty in the source, or has other items now: it collects
something.
"""

from __future__ import annotations

import ast
import contextlib
import datetime
import decimal
import enum
import fractions
import functools
import importlib.util
import inspect
import pathlib
import re
import sys
import textwrap
import uuid
import weakref
from types import CodeType, FunctionType, ModuleType
from typing import Any

from .facts import SourceFacts

_MAKERS: frozenset[Any] = frozenset(
    {
        *(bool, int, float, complex, str, bytes, tuple, frozenset, list, dict, set, range),
        *(decimal.Decimal, fractions.Fraction, uuid.UUID, re.compile),
        *(datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone),
        *(abs, chr, len, max, min, ord, round, sorted, sum),
        *(functools.partial, inspect.cleandoc, textwrap.dedent),
        *(pathlib.PurePath, pathlib.Path, pathlib.PurePosixPath, pathlib.PureWindowsPath),
    }
)
"""Functions whose result depends on their arguments only."""
_CONTAINERS = (list, dict, set, bytearray)
_LITERALS = (ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.JoinedStr, ast.FormattedValue)
_OPERATORS = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Starred)
_PARTS = (*_LITERALS, *_OPERATORS, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context, ast.keyword)


class Source:
    """The source of one module, and what it says about the module's globals now. Without a source it has no constants.
    It is parsed when one of its words matters."""

    def __init__(self, module: ModuleType) -> None:
        self.spec = getattr(module, "__spec__", None)
        self._space = vars(module)
        text = _text(module)
        self.is_missing = text is None and "__file__" in self._space
        self._text = text or ""
        self._values: dict[ast.expr, Any] = {}
        self._judged: set[ast.expr] = set()

    @functools.cached_property
    def facts(self) -> SourceFacts:
        """What the source says."""
        try:
            tree = ast.parse(self._text)
        except (SyntaxError, ValueError):
            tree = ast.Module([], [])
        return SourceFacts(tree, self._space.get("__package__") or "")

    def is_constant(self, name: str) -> bool:
        """Whether a global of the module is a constant, here or where it is imported from. Functions, classes and
        modules are asked for elsewhere."""
        facts, found = self.facts, self.facts.assigned.get(name, [])
        if name in facts.rebound:
            return False
        if found:
            is_one = len(found) == 1 and name not in facts.imported
            return is_one and found[0] is not None and self.holds(found[0], self._space.get(name))
        return any(
            vars(module).get(named, self) is self._space.get(name) and source_of(module).is_constant(named)
            for home, named in facts.homes(name)
            if (module := sys.modules.get(home)) is not None
        )

    def holds(self, node: ast.expr, value: Any, kind: type | None = None) -> bool:
        """Whether an expression always has the same value, and `value` is that still. It is in the body of `kind`, or
        at the top of the module. An empty container is there to collect something."""
        if not self.is_fixed(node, kind) or (isinstance(value, _CONTAINERS) and not value):
            return False
        try:
            return _is_alike(self.value_of(node, kind), value)
        except Exception:
            return False

    def value_of(self, node: ast.expr, kind: type | None = None) -> Any:
        """The value of an expression that always has the same one.

        Raises:
            Exception: anything that the expression raises.
        """
        if node not in self._values:
            code = compile(ast.Expression(node), "<constant>", "eval")
            # It is an expression of the author that this process has evaluated before.
            self._values[node] = eval(code, self._space, vars(kind) if kind else None)  # noqa: S307
        return self._values[node]

    def in_class(self, kind: type) -> dict[str, ast.expr]:
        """What the body of a class assigns."""
        return self.facts.in_classes.get(kind.__qualname__, {})

    def function(self, code: CodeType) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function of the module or of its classes that has this code."""
        found = self.facts.functions.get(code.co_firstlineno)
        return found if found is not None and found.name == code.co_name else None

    def binds(self, owner: Any, name: str) -> bool:
        """Whether code of the module binds this attribute of an object, or changes a container that it has there. It
        would have to have the name as an attribute, or that of a container as any word: else it is not parsed."""
        held = vars(owner).get(name)
        is_container = isinstance(held, _CONTAINERS)
        before = "" if is_container else r"[.]\s*"
        if name not in self._text or re.search(rf"{before}\b{name}\b", self._text) is None:
            return False
        return any(self.called(node) is owner for node in self.facts.stores.get(name, ())) or (
            is_container and any(self.called(node) is held for node in self.facts.changed)
        )

    def is_fixed(self, node: ast.AST, kind: type | None = None) -> bool:
        """Whether an expression always has the same value."""
        if isinstance(node, ast.Name):
            return self._is_fixed_name(node.id, kind)
        if isinstance(node, ast.Attribute):
            return self._is_fixed_attribute(self.called(node.value), node.attr)
        if isinstance(node, ast.Lambda):
            return True
        if isinstance(node, ast.Subscript):
            # An item of a table, or a generic class with its arguments.
            is_table = not _is_code(held := self.called(node.value)) and self.is_fixed(node.value, kind)
            return (isinstance(held, type) or is_table) and self.is_fixed(node.slice, kind)
        if isinstance(node, ast.Call):
            arguments = arguments_of(node)
            makes = (_is_maker(self.called(node.func)) and bool(arguments)) or self._is_method_of_text(node.func, kind)
            return makes and all(self.is_fixed(argument, kind) for argument in arguments)
        if isinstance(node, _PARTS):
            return all(self.is_fixed(inner, kind) for inner in ast.iter_child_nodes(node))
        return False

    def _is_fixed_attribute(self, owner: Any, name: str) -> bool:
        if isinstance(owner, enum.Enum):
            return name in ("name", "value")
        if not isinstance(owner, type | ModuleType):
            return False
        if _is_code(vars(owner).get(name) if isinstance(owner, ModuleType) else getattr(owner, name, None)):
            return True
        if isinstance(owner, ModuleType):
            return source_of(owner).is_constant(name)
        source, value = sys.modules.get(owner.__module__), vars(owner).get(name)
        node = source_of(source).in_class(owner).get(name) if source else None
        return source is not None and node is not None and source_of(source).holds(node, value, owner)

    def _is_method_of_text(self, node: ast.expr, kind: type | None) -> bool:
        if not isinstance(node, ast.Attribute) or not self.is_fixed(node.value, kind):
            return False
        with contextlib.suppress(Exception):
            return type(self.value_of(node.value, kind)) is str
        return False

    def _is_fixed_name(self, name: str, kind: type | None) -> bool:
        found = self.in_class(kind).get(name) if kind else None
        if kind is not None and found is not None and name in vars(kind) and found not in self._judged:
            # In its own expression the name means that of the module.
            self._judged.add(found)
            try:
                return self.holds(found, vars(kind)[name], kind)
            finally:
                self._judged.discard(found)
        return _is_code(self._value(name)) or self.is_constant(name)

    def called(self, node: ast.expr) -> Any:
        """What a name means, maybe one of a module or a class; None if that is not known."""
        if isinstance(node, ast.Name):
            return self._value(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.called(node.value)
            if isinstance(owner, ModuleType):
                return vars(owner).get(node.attr)
            # An attribute of another object may be code of the author.
            return getattr(owner, node.attr, None) if isinstance(owner, type) else None
        return None

    def _value(self, name: str) -> Any:
        if name in self._space:
            return self._space[name]
        if (imported := self.facts.inner.get(name)) is not None:
            module = sys.modules.get(imported.module)
            return getattr(module, imported.name, None) if imported.name else module
        return getattr(sys.modules["builtins"], name, None)


def arguments_of(node: ast.Call) -> list[ast.expr]:
    """The arguments of a call."""
    return [*node.args, *(item.value for item in node.keywords)]


def _is_code(value: Any) -> bool:
    return isinstance(value, enum.Enum) or callable(value)


def _is_alike(one: Any, other: Any) -> bool:
    """Whether two values say the same, each made by the same expression."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_is_alike, one, other))
    if isinstance(one, dict):
        return _is_alike(list(one.items()), list(other.items()))
    if isinstance(one, FunctionType):
        return _is_alike(one.__code__, other.__code__)
    if isinstance(one, CodeType):
        return one.co_code == other.co_code and _is_alike(
            (one.co_names, one.co_consts), (other.co_names, other.co_consts)
        )
    if isinstance(one, functools.partial):
        return _is_alike((one.func, one.args, one.keywords), (other.func, other.args, other.keywords))
    return bool(one == other or (one != one and other != other))


def _is_maker(called: Any) -> bool:
    try:
        return called in _MAKERS
    except TypeError:
        return False


_GONE = (FileNotFoundError, NotADirectoryError, PermissionError)


class SourceUnreadable(OSError):
    """The source of a module can't be read now: the process is out of descriptors, say."""


def _text(module: ModuleType) -> str | None:
    """The source of a module; None if it has none. Raises SourceUnreadable."""
    spec, loader = getattr(module, "__spec__", None), getattr(module, "__loader__", None)
    file = getattr(module, "__file__", None)
    try:
        if (read := getattr(loader, "get_source", None)) is not None:
            found: str | None = read(spec.name if spec else module.__name__)
            return found
        if isinstance(file, str) and file.endswith(".py"):
            return importlib.util.decode_source(pathlib.Path(file).read_bytes())
    except Exception as error:
        # A loader of somebody else may raise anything.
        cause = error.__cause__ if isinstance(error, ImportError) else error
        if isinstance(cause, OSError) and not isinstance(cause, _GONE):
            raise SourceUnreadable(*cause.args) from error
    return None


_SOURCES: weakref.WeakKeyDictionary[ModuleType, Source] = weakref.WeakKeyDictionary()


def source_of(module: ModuleType) -> Source:
    """The source of a module as it was when the process first asked for it: a deploy may replace the file while the
    process runs. Raises SourceUnreadable."""
    known = _SOURCES.get(module)
    if known is None or known.spec is not getattr(module, "__spec__", None):
        known = _SOURCES[module] = Source(module)
    return known
