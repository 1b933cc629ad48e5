"""What the source of a module says about its names: what it assigns to them, and what it binds or changes elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeGuard

_CHANGING = frozenset(
    {
        *("append", "extend", "insert", "pop", "remove", "clear", "add", "discard", "update", "setdefault", "popitem"),
        *("sort", "reverse", "difference_update", "intersection_update", "symmetric_difference_update"),
    }
)
"""Methods that change a container in place."""
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


class Import(NamedTuple):
    """What a name was imported from: a module, and the name there; `name` is empty if it is the module itself."""

    module: str
    name: str


class SourceFacts:
    """The facts of one module. `package` is what its relative imports start from.

    - `assigned` has what the top of the module assigns to each name; None is anything that is no assignment
    - `imported` has the names that its top imports from modules, `inner` those that functions import, `stars` the
      modules of which all names were imported
    - `rebound` has the globals that functions assign, and those whose containers are changed in place
    - `stored` has the attributes that are bound anew, or whose containers are changed in place
    - `stored_inside` has what functions bind of what is known by its name there: the name, and the attribute
    - `stores` has the expressions of the objects whose attributes are bound, by attribute
    - `changed` has the expressions of the containers that are changed in place
    - `in_classes` has what the body of each class assigns, by the qualified name of the class
    - `functions` has those of the module and of its classes, by the line at which they begin
    """

    def __init__(self, tree: ast.Module, package: str) -> None:
        self._package = package
        self.assigned: dict[str, list[ast.expr | None]] = {}
        self.imported: dict[str, Import] = {}
        self.inner: dict[str, Import] = {}
        self.stars: list[str] = []
        self.rebound, self.stored, self.stored_inside = set[str](), set[str](), set[tuple[str, str]]()
        self.stores: dict[str, list[ast.expr]] = {}
        self.changed: list[ast.expr] = []
        self.in_classes: dict[str, dict[str, ast.expr]] = {}
        self.functions: dict[int, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self._read_top(tree.body)
        self._read_classes(tree.body, "")
        self._read_functions(tree)
        for node in ast.walk(tree):
            self._read_anywhere(node)

    def homes(self, name: str) -> list[Import]:
        """What a global may have been imported from."""
        return [self.imported[name]] if name in self.imported else [Import(star, name) for star in self.stars]

    def _read_top(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    self._assign(_pairs(target, statement.value))
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                self._assign(_pairs(statement.target, statement.value))
            elif isinstance(statement, ast.ImportFrom):
                self.stars += [self._module(statement) for alias in statement.names if alias.name == "*"]
                self.imported.update(self._imports(statement))
            else:
                self._assign((name, None) for name in _bound(statement))

    def _read_classes(self, body: list[ast.stmt], outer: str) -> None:
        for statement in body:
            if isinstance(statement, ast.ClassDef):
                found = self.in_classes[outer + statement.name] = dict[str, ast.expr]()
                for inner in statement.body:
                    if isinstance(inner, ast.Assign | ast.AnnAssign) and inner.value is not None:
                        targets = inner.targets if isinstance(inner, ast.Assign) else [inner.target]
                        pairs = (pair for target in targets for pair in _pairs(target, inner.value))
                        found |= {name: value for name, value in pairs if value is not None}
                self._read_classes(statement.body, f"{outer}{statement.name}.")

    def _read_functions(self, outer: ast.AST) -> None:
        for node in ast.iter_child_nodes(outer):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions[min([node.lineno, *(found.lineno for found in node.decorator_list)])] = node
                self.stored_inside.update(_stores_inside(node))
            elif isinstance(node, ast.stmt | ast.ExceptHandler):
                self._read_functions(node)

    def _read_anywhere(self, node: ast.AST) -> None:
        if isinstance(node, ast.Global):
            self.rebound.update(node.names)
        elif _binds_attribute(node):
            self.stored.add(node.attr)
            self.stores.setdefault(node.attr, []).append(node.value)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self.inner.update(self._imports(node))
        elif (changed := changed_in_place(node)) is not None:
            self.changed.append(changed)
            if isinstance(changed, ast.Name):
                self.rebound.add(changed.id)
            elif isinstance(changed, ast.Attribute):
                self.stored.add(changed.attr)

    def _assign(self, pairs: Iterable[tuple[str, ast.expr | None]]) -> None:
        for name, value in pairs:
            self.assigned.setdefault(name, []).append(value)

    def _imports(self, statement: ast.Import | ast.ImportFrom) -> Iterable[tuple[str, Import]]:
        for alias in statement.names:
            if isinstance(statement, ast.ImportFrom):
                yield alias.asname or alias.name, Import(self._module(statement), alias.name)
            elif alias.asname:
                yield alias.asname, Import(alias.name, "")
            else:
                top = alias.name.partition(".")[0]
                yield top, Import(top, "")

    def _module(self, statement: ast.ImportFrom) -> str:
        """The full name of the module that a statement imports from."""
        parts = self._package.split(".")
        base = parts[: len(parts) - statement.level + 1] if statement.level else []
        return ".".join([*base, *([statement.module] if statement.module else [])])


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr | None]]:
    """The names that an assignment binds, each with its expression, if it has one of its own."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif (
        isinstance(target, ast.Tuple | ast.List)
        and isinstance(value, ast.Tuple | ast.List)
        and len(target.elts) == len(value.elts)
        and not any(isinstance(item, ast.Starred) for item in (*target.elts, *value.elts))
    ):
        for inner, part in zip(target.elts, value.elts, strict=True):
            yield from _pairs(inner, part)
    else:
        yield from ((name, None) for name in _bound(target))


def defaults_in(parameters: ast.arguments) -> dict[str, ast.expr]:
    """The defaults of parameters, by name."""
    positional = [*parameters.posonlyargs, *parameters.args]
    given = zip(positional[len(positional) - len(parameters.defaults) :], parameters.defaults, strict=True)
    pairs = [*given, *zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True)]
    return {parameter.arg: default for parameter, default in pairs if default is not None}


def _binds_attribute(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del)


def _stores_inside(function: ast.AST) -> Iterator[tuple[str, str]]:
    """The attributes that a function binds: each with the name of its object, e.g. `count` or `Order.pay`. Parameters
    and local names are left out, but not a function that binds an attribute of itself."""
    todo = [(function, frozenset[str]())]
    while todo:
        node, local = todo.pop()
        if isinstance(node, _FUNCTION):
            local = (local - {node.name}).union(_bound_inside(node))
        elif _binds_attribute(node) and (name := _dotted(node.value)).partition(".")[0] not in local:
            yield name, node.attr
        todo += ((inner, local) for inner in ast.iter_child_nodes(node))


def _bound_inside(function: ast.AST) -> Iterator[str]:
    """The parameters of a function and the names that it assigns or defines, with those of the functions in it."""
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, _FUNCTION) and node is not function:
            yield node.name


def _dotted(node: ast.expr) -> str:
    """A name, maybe with attributes; empty for any other expression."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def changed_in_place(node: ast.AST) -> ast.expr | None:
    """The container that a piece of code puts something into, or takes something out of: the outermost one, where it is
    an item of others."""
    found: ast.expr | None = None
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        found = node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
        found = node.func.value
    while isinstance(found, ast.Subscript):
        found = found.value
    return found


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
