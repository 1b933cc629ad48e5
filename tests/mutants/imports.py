"""Has modules imported by loaders of the tests."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from typing import Any


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, loaders: Mapping[str, type[importlib.machinery.SourceFileLoader]]) -> None:
        self._loaders = loaders

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if (loader := self._loaders.get(fullname)) is None:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert found is not None and found.origin is not None
        return importlib.util.spec_from_file_location(fullname, found.origin, loader=loader(fullname, found.origin))


def load_by(loaders: Mapping[str, type[importlib.machinery.SourceFileLoader]]) -> None:
    """Import each of these modules by its loader from now on. None of them may be there already: it would stay as it
    is."""
    assert not loaders.keys() & sys.modules.keys(), "a module is there already, and would stay as it is"
    sys.meta_path.insert(0, _Finder(loaders))
