"""Which modules are the author's, and which are installed.

The code of the author's modules is kept with its calls. Everything else is named only: a process that carries a call on
has to have it installed.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from collections.abc import Iterable
from types import FunctionType
from typing import Any

from framehold_store.named import Named

FRAMEHOLD = (
    "framehold",
    "framehold_cli",
    "framehold_core",
    "framehold_fleet",
    "framehold_loadtest",
    "framehold_router",
    "framehold_store",
)
"""The packages of Framehold itself."""
_LIBRARIES = frozenset({*FRAMEHOLD, "mcp", "mcp_types", "fastmcp", "pydantic"})
"""Packages that register functions of their own as handlers."""
_COPYING = frozenset({"pydantic", "pydantic_settings", "typing_extensions"})
"""Libraries whose classes can be made again beside themselves, as those of the standard library can."""
_BOUND = frozenset(
    {"asyncio", "anyio", "threading", "_thread", "queue", "multiprocessing", "concurrent", "socket", "ssl", "io", "_io"}
)
"""Modules whose objects belong to a process, even if they can be pickled."""
_EXAMPLES = ("framehold.examples", "framehold_loadtest.served")
"""Servers that come with Framehold: their code is an author's."""
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
_STANDARD = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})


def is_library(file: str) -> bool:
    """Whether a file belongs to the standard library or to an installed package, or is no file: code that was made at
    run time."""
    return file.startswith(("<", *_STANDARD)) or _INSTALLED.search(file) is not None


def is_framehold(module: str) -> bool:
    """Whether a module of this name belongs to Framehold, and is no example."""
    return module.partition(".")[0] in FRAMEHOLD and not module.startswith(_EXAMPLES)


class Authors:
    """Decides whose a module is, by its name. These are the author's:

    - the modules that `named` names, with the modules below them, unless `-name` excludes them
    - the packages that handlers come from (`packages`), even if they are installed
    - each module whose file belongs neither to an installed package nor to the standard library

    Args:
        named: names of modules, each maybe with `-` in front. The longest name that fits decides.
        packages: modules that handlers come from.
    """

    def __init__(self, named: Iterable[str] = (), packages: Iterable[str] = ()) -> None:
        chosen = [name.strip() for name in named]
        self._chosen = chosen
        self._named = {name.removeprefix("-"): not name.startswith("-") for name in chosen if name}
        self._packages: set[str] = set()
        self._known: dict[str, bool] = {}
        for package in packages:
            self.include(package)

    def include(self, module: object) -> None:
        """Count the top-level package of a module, which a handler comes from, as the author's."""
        top = str(module).partition(".")[0]
        if top not in self._packages and top not in sys.stdlib_module_names and top not in _LIBRARIES:
            self._packages.add(top)
            self._known.clear()

    def decisions(self) -> tuple[list[str], list[str]]:
        """The arguments of an `Authors` that decides alike."""
        return self._chosen, sorted(self._packages)

    def own(self, module: object) -> bool:
        """Whether the module of this name is the author's. False for anything that is no name of a module."""
        if not isinstance(module, str) or not module:
            return False
        known = self._known.get(module)
        if known is None:
            known = self._known[module] = self._decided(module)
        return known

    def _decided(self, module: str) -> bool:
        outer = module
        while outer:
            if outer in self._named:
                return self._named[outer]
            outer = outer.rpartition(".")[0]
        if module.startswith(_EXAMPLES):
            return True
        top = module.partition(".")[0]
        if is_framehold(module) or top in sys.stdlib_module_names:
            return False
        if top in self._packages or module == "__main__":
            return True
        file = getattr(sys.modules.get(module), "__file__", None)
        return isinstance(file, str) and not is_library(file)

    def wrote(self, item: Any) -> bool:
        """Whether a function or a class is the author's: its module is, or it has no name in an installed module."""
        module = getattr(item, "__module__", None)
        return self.own(module) or not is_importable(item)

    def is_registered(self, kind: type) -> bool:
        """Whether a library that has hooks for it did something when a class of the author was made, e.g. registered it
        as a table of a database: a copy would be registered beside it."""
        hooked = (base for base in kind.__mro__[1:] if "__init_subclass__" in vars(base))
        return not all(_is_harmless(found) or self.own(found.__module__) for found in (*type.mro(type(kind)), *hooked))


def _is_harmless(kind: type) -> bool:
    top = kind.__module__.partition(".")[0]
    return top in sys.stdlib_module_names or top in _COPYING


def is_importable(item: Any) -> bool:
    """Whether a function or a class is found again by the name of its module and its own."""
    module, name = getattr(item, "__module__", None), getattr(item, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return False
    return Named(module, name).found() is item


def is_process_bound(item: Any) -> bool:
    """Whether an object belongs to the process that made it."""
    return type(item).__module__.partition(".")[0] in _BOUND or type(item).__name__ in ("ContextVar", "Context")


def module_of(fn: FunctionType) -> str:
    """The name of the module whose globals a function uses."""
    return str(fn.__globals__.get("__name__", ""))
