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

from .places import STARTED, module_of, mutated, started

NAME = os.environ.get("MUTANT", "")


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        return compile(mutated(NAME), self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)[STARTED] = started
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if fullname != module_of(NAME.partition(":")[0]):
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert found is not None and found.origin is not None
        return importlib.util.spec_from_file_location(fullname, found.origin, loader=_Loader(fullname, found.origin))


if NAME:
    assert module_of(NAME.partition(":")[0]) not in sys.modules, "the module is there already, without the change"
    sys.meta_path.insert(0, _Finder())
