"""A pytest plugin, and an import hook: the module of the mutant that MUTANT names is imported with its change.

MUTANT=core/framehold_core/lease:Tenure.heard:3 pytest -p tests.mutants.hook tests/core
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Any

from . import guards
from .places import STARTED, module_of, mutated, started

NAME = os.environ.get("MUTANT", "")
FILE, _, PLACE = NAME.partition(":")
_IN_LUA = FILE.endswith(".lua")
MODULE = "framehold_store.scripts" if _IN_LUA else module_of(FILE)


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        return compile(mutated(NAME), self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)[STARTED] = started
        super().exec_module(module)


class _LuaLoader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        guards.exchange(FILE, int(PLACE.rpartition(":")[2]), module.SCRIPTS)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if fullname != MODULE:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert found is not None and found.origin is not None
        loader = _LuaLoader if _IN_LUA else _Loader
        return importlib.util.spec_from_file_location(fullname, found.origin, loader=loader(fullname, found.origin))


if NAME:
    assert MODULE not in sys.modules, "the module is there already, without the change"
    sys.meta_path.insert(0, _Finder())
