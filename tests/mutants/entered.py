"""A pytest plugin, and an import hook: notes which functions each test enters, of the modules whose decisions are taken
out, and how long the test takes.

ENTERED=found.json pytest -p tests.mutants.entered tests/core

So a mutant is looked at by the tests that enter its function, the fastest first, before the others of its room are
played (`rooms`). What a fixture of several tests enters is noted for the first of them.
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
_now: set[str] = set()
_found: dict[str, tuple[float, list[str]]] = {}


class _Marks(ast.NodeTransformer):
    """Has each function of a file note that it is entered."""

    def __init__(self, file: str) -> None:
        self._file, self._within = file, list[str]()

    def _enter(self, node: Any) -> ast.AST:
        self._within.append(node.name)
        self.generic_visit(node)
        if not isinstance(node, ast.ClassDef):
            name = f"{self._file}:{'.'.join(self._within)}"
            mark = ast.Expr(ast.Call(ast.Name(_MARK, ast.Load()), [ast.Constant(name)], []))
            node.body.insert(1 if ast.get_docstring(node) is not None else 0, mark)
        self._within.pop()
        found: ast.AST = node
        return found

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _enter


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        tree = _Marks(_FILES[fullname]).visit(ast.parse(Path(self.path).read_text()))
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)[_MARK] = _now.add
        super().exec_module(module)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note what one test enters."""
    _now.clear()
    began = time.monotonic()
    done = yield
    _found[item.nodeid] = time.monotonic() - began, sorted(_now)
    return done


def pytest_sessionfinish() -> None:
    """Write it."""
    Path(os.environ["ENTERED"]).write_text(json.dumps(_found))


if "ENTERED" in os.environ:
    load_by(dict.fromkeys(_FILES, _Loader))
