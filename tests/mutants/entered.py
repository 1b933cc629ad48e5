"""A pytest plugin, and an import hook: notes which statements each test executes, of the functions whose decisions are
taken out, and how long the test takes.

ENTERED=found.json pytest -p tests.mutants.entered tests/core

So a mutant is looked at by the tests that execute its statement, the fastest first (`rooms`). What a fixture of several
tests executes is noted for the first of them.
"""

from __future__ import annotations

import ast
import importlib.machinery
import json
import os
import time
from collections.abc import Generator
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

from .imports import load_by
from .places import MODULES, module_of

_MARK = "_mutants_entered"
_FILES = {module_of(file): file for file in MODULES}
_now: dict[str, set[int]] = {file: set() for file in MODULES}
_found: dict[str, tuple[float, dict[str, list[int]]]] = {}


class Marks(ast.NodeVisitor):
    """Has each statement of a function say that it is executed, by the number of its line."""

    def __init__(self) -> None:
        self.functions: dict[int, str] = {}
        """The line of each statement, and the function that it is in."""
        self._within: list[str] = []
        self._in_function = False

    def visit(self, node: Any) -> None:
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if named:
            self._within.append(node.name)
        in_function = self._in_function if not named else not isinstance(node, ast.ClassDef)
        before, self._in_function = self._in_function, in_function
        self.generic_visit(node)
        if in_function:
            for name in ("body", "orelse", "finalbody"):
                if isinstance(statements := getattr(node, name, None), list):
                    setattr(node, name, [new for statement in statements for new in self._marked(statement)])
        self._in_function = before
        if named:
            self._within.pop()

    def _marked(self, statement: ast.stmt) -> list[ast.stmt]:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            # A docstring: it stays the first statement.
            return [statement]
        self.functions[statement.lineno] = ".".join(self._within)
        line = ast.Constant(statement.lineno)
        return [ast.Expr(ast.Call(ast.Name(_MARK, ast.Load()), [line], [])), statement]


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(Path(self.path).read_text())
        Marks().visit(tree)
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)[_MARK] = _now[_FILES[module.__name__]].add
        super().exec_module(module)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note what one test executes."""
    for lines in _now.values():
        lines.clear()
    began = time.monotonic()
    done = yield
    _found[item.nodeid] = time.monotonic() - began, {file: sorted(lines) for file, lines in _now.items() if lines}
    return done


def pytest_sessionfinish() -> None:
    """Write it."""
    Path(os.environ["ENTERED"]).write_text(json.dumps(_found))


if "ENTERED" in os.environ:
    load_by(dict.fromkeys(_FILES, _Loader))
