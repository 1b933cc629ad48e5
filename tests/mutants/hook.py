"""A pytest plugin, and an import hook: the module of the mutant that MUTANT names is imported with its change.

MUTANT=core/framehold_core/lease:Tenure.heard:3 pytest -p tests.mutants.hook tests/core
"""

from __future__ import annotations

import importlib.machinery
import os
from types import CodeType, ModuleType

from . import guards
from .imports import load_by
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


if NAME:
    load_by({MODULE: _LuaLoader if _IN_LUA else _Loader})
