"""Which values of the author's modules are constants, by the sources of all of them."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from .authors import Authors
from .constants import Source


class ModuleSources:
    """The sources of the author's modules in this process. They are read once."""

    def __init__(self, authors: Authors) -> None:
        self._authors = authors
        self._known: dict[str, Source] = {}
        self._seen, self._own = (0, ""), list[str]()
        self._outside: dict[tuple[str, str], bool] = {}

    def of(self, module: str) -> Source | None:
        """The source of a module of the author; None if it is not his, or not imported."""
        found = sys.modules.get(module)
        if found is None or not self._authors.own(module):
            return None
        known = self._known.get(module)
        if known is None or known.module is not found:
            known = self._known[module] = Source(found)
        return known

    def is_constant(self, module: str, name: str, value: Any) -> bool:
        """Whether a global is a constant of the module of the author that it comes from."""
        source = self.of(module)
        if source is None or self._is_bound_outside(source.module, name):
            return False
        if name in source.facts.imported:
            home, named = source.facts.imported[name]
            return self.is_constant(home, named, value)
        for home in source.facts.stars:
            if getattr(sys.modules.get(home), name, source) is value and self.is_constant(home, name, value):
                return True
        return source.is_constant(name)

    def _is_bound_outside(self, module: ModuleType, name: str) -> bool:
        """Whether another module of the author binds a global of this one, or changes what it holds. It would have to
        have the name in its source."""
        seen = (len(sys.modules), next(reversed(sys.modules)))
        if seen != self._seen:
            # Modules were imported since.
            self._seen, self._outside = seen, {}
            self._own = [found for found in list(sys.modules) if self._authors.own(found)]
        place = (module.__name__, name)
        if (known := self._outside.get(place)) is None:
            mentioned = (source for found in self._own if (source := self.of(found)) and name in source.words)
            known = self._outside[place] = any(source.binds(module, name) for source in mentioned)
        return known
