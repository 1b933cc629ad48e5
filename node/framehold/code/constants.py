"""Which globals of a module are constants, by its source.

A constant is assigned once, at the top of its module, from a literal or from other constants, and is never assigned in
a function. What is computed when the module is imported (a setting of the environment, a time, a connection) belongs to
the process that imported it. So does a container that is empty in the source, or has other items now: it collects
something.
"""

from __future__ import annotations

import ast
import datetime
import decimal
import fractions
import functools
import pathlib
import re
import sys
import uuid
from collections.abc import Iterator
from types import ModuleType
from typing import Any

_MAKERS: frozenset[Any] = frozenset(
    {
        *(bool, int, float, complex, str, bytes, tuple, frozenset, list, dict, set, range),
        *(decimal.Decimal, fractions.Fraction, uuid.UUID, re.compile),
        *(datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone),
        functools.partial,
        *(pathlib.PurePath, pathlib.Path, pathlib.PurePosixPath, pathlib.PureWindowsPath),
    }
)
"""Functions whose result depends on their arguments only."""
_CHANGING = frozenset(
    {
        *("append", "extend", "insert", "pop", "remove", "clear", "add", "discard", "update", "setdefault", "popitem"),
        *("sort", "reverse", "difference_update", "intersection_update", "symmetric_difference_update"),
    }
)
"""Methods that change a container in place."""
_LITERALS = (ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.JoinedStr, ast.FormattedValue)
_OPERATORS = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Starred)
_PARTS = (*_LITERALS, *_OPERATORS, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context, ast.keyword)


class Source:
    """What the source of one module says about its globals. Without a source it has no constants."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self._assigned: dict[str, list[ast.expr | None]] = {}
        self.imported: dict[str, tuple[str, str]] = {}
        """Names that were imported with `from module import name`: the module and the name there."""
        self.stars: list[str] = []
        """The modules of which all names were imported."""
        self._rebound: set[str] = set()
        self._in_classes: dict[str, dict[str, str]] = {}
        self.stored: set[str] = set()
        """Attributes that code of the module binds anew, or whose containers it changes in place."""
        tree = _tree(module)
        if tree is not None:
            self._read(tree)

    def is_constant(self, name: str) -> bool:
        """Whether a global of the module is a constant. Functions, classes and modules are asked for elsewhere."""
        found = self._assigned.get(name, [])
        if len(found) != 1 or found[0] is None or name in self._rebound:
            return False
        return self._is_fixed(found[0]) and not self._collects(found[0], getattr(self.module, name, None))

    def in_class(self, qualname: str, name: str) -> str | None:
        """What the body of a class assigns to a name, in a form that is equal in every process; None if nothing."""
        return self._in_classes.get(qualname, {}).get(name)

    def _read_classes(self, body: list[ast.stmt], outer: str) -> None:
        for statement in body:
            if isinstance(statement, ast.ClassDef):
                found = self._in_classes[outer + statement.name] = dict[str, str]()
                for inner in statement.body:
                    targets = inner.targets if isinstance(inner, ast.Assign) else [getattr(inner, "target", None)]
                    value = getattr(inner, "value", None)
                    found |= {item.id: ast.dump(value) for item in targets if isinstance(item, ast.Name) and value}
                self._read_classes(statement.body, f"{outer}{statement.name}.")

    def _read(self, tree: ast.Module) -> None:
        self._read_classes(tree.body, "")
        for statement in tree.body:
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    self._assign(target, statement.value)
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                self._assign(statement.target, statement.value)
            elif isinstance(statement, ast.ImportFrom):
                self._import(statement)
            else:
                for name in _bound(statement):
                    self._assigned.setdefault(name, []).append(None)
        for node in ast.walk(tree):
            if isinstance(node, ast.Global):
                self._rebound.update(node.names)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
                self.stored.add(node.attr)
            elif isinstance(changed := _changed_in_place(node), ast.Name):
                self._rebound.add(changed.id)
            elif isinstance(changed, ast.Attribute):
                self.stored.add(changed.attr)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._assigned.setdefault(target.id, []).append(value)
        else:
            for name in _bound(target):
                self._assigned.setdefault(name, []).append(None)

    def _import(self, statement: ast.ImportFrom) -> None:
        package = getattr(self.module, "__package__", None) or ""
        base = package.split(".")[: len(package.split(".")) - statement.level + 1] if statement.level else []
        module = ".".join([*base, *([statement.module] if statement.module else [])])
        for alias in statement.names:
            if alias.name == "*":
                self.stars.append(module)
            else:
                self.imported[alias.asname or alias.name] = (module, alias.name)

    def _is_fixed(self, node: ast.AST) -> bool:
        """Whether an expression always has the same value."""
        if isinstance(node, ast.Name):
            return self._is_fixed_name(node.id)
        if isinstance(node, ast.Attribute):
            # A member of an enum, or a name of a module that is imported.
            return isinstance(node.value, ast.Name) and isinstance(self._value(node.value.id), type)
        if isinstance(node, ast.Lambda):
            return True
        if isinstance(node, ast.Subscript):
            # A generic class with its arguments.
            return isinstance(self._called(node.value), type) and self._is_fixed(node.slice)
        if isinstance(node, ast.Call):
            called = self._called(node.func)
            arguments = [*node.args, *(item.value for item in node.keywords)]
            return _is_maker(called) and bool(arguments) and all(map(self._is_fixed, arguments))
        if isinstance(node, _PARTS):
            return all(map(self._is_fixed, ast.iter_child_nodes(node)))
        return False

    def _is_fixed_name(self, name: str) -> bool:
        value = self._value(name)
        if isinstance(value, type) or callable(value):
            return True
        return name in self._assigned and self.is_constant(name)

    def _called(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            return self._value(node.id)
        if isinstance(node, ast.Attribute):
            return getattr(self._called(node.value), node.attr, None)
        return None

    def _value(self, name: str) -> Any:
        builtins = sys.modules["builtins"]
        return getattr(self.module, name, getattr(builtins, name, None))

    def _collects(self, node: ast.expr, value: Any) -> bool:
        """Whether a container is empty in the source, or was changed since."""
        if not isinstance(value, list | dict | set | bytearray):
            return False
        try:
            return not value or ast.literal_eval(node) != value
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            # It has names of functions or classes: a table of those.
            size = len(getattr(node, "keys", None) or getattr(node, "elts", None) or ())
            return size != len(value)


def _changed_in_place(node: ast.AST) -> ast.expr | None:
    """The container that a piece of code puts something into, or takes something out of."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
        return node.func.value
    return None


def _is_maker(called: Any) -> bool:
    try:
        return called in _MAKERS
    except TypeError:
        return False


def _bound(node: ast.AST) -> Iterator[str]:
    """The names that a statement of a module binds there: those in functions and classes are not the module's."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
        return
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        yield node.id
    elif isinstance(node, ast.alias):
        yield (node.asname or node.name).partition(".")[0]
    for inner in ast.iter_child_nodes(node):
        yield from _bound(inner)


def _tree(module: ModuleType) -> ast.Module | None:
    """The source of a module, parsed; None if it has none that can be read."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or not file.endswith(".py"):
        return None
    try:
        return ast.parse(pathlib.Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
