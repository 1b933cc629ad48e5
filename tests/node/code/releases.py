"""Two releases of an author's modules: what the first wrote is loaded where the second is imported."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from framehold.code.authors import Authors
from framehold.code.codes import Codes, Registered, read

Files = Mapping[str, str]
"""Texts by file name."""


def files_of(text: str | Files) -> Files:
    return {"server.py": text} if isinstance(text, str) else text


@contextmanager
def release(folder: Path, text: str | Files) -> Iterator[ModuleType]:
    """The module `server` of one release, and its neighbours, while they can be imported."""
    folder.mkdir()
    for name, content in files_of(text).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield importlib.import_module("server")
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                del sys.modules[name]


def registered(fn: Any) -> Registered:
    return Registered(fn, {}, "tools/call", "handler", True)


def codes() -> Codes:
    return Codes(Authors())


def written(
    folder: Path, text: str | Files, name: str = "handler", first: Callable[[ModuleType], object] = id
) -> bytes:
    """The code of a handler of a release, in which `first` has run before."""
    with release(folder, text) as module:
        first(module)
        return codes().write(registered(getattr(module, name)))


def digest(folder: Path, text: str | Files, name: str = "handler") -> str:
    with release(folder, text) as module:
        return codes().of(registered(getattr(module, name))).digest


def problems(folder: Path, text: str | Files, name: str = "handler") -> tuple[str, ...]:
    with release(folder, text) as module:
        return codes().of(registered(getattr(module, name))).problems


def carried(tmp_path: Path, before: str | Files, after: str | Files, *arguments: Any) -> Any:
    """What the handler of the first release returns in a process that has the second."""
    data = written(tmp_path / "before", before)
    with release(tmp_path / "after", after):
        result = read(data).handler.function(*arguments)
        return asyncio.run(result) if inspect.iscoroutine(result) else result
