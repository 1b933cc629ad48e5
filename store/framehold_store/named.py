"""Objects that are known by their identity: sentinels, and other objects that a module has under a name.

A copy of such an object is not it: `is` is false, and a default argument is taken for a value. So whatever is written
out has them by the names of their modules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Named(NamedTuple):
    """A place: a module, and a name in it, maybe dotted."""

    module: str
    name: str

    def present(self) -> Any:
        """What this process has there. Raises KeyError: the module is not imported; AttributeError: it has no such
        name."""
        found: Any = sys.modules[self.module]
        for part in self.name.split("."):
            found = getattr(found, part)
        return found

    def found(self) -> Any:
        """What this process has there; None if it has nothing there."""
        try:
            return self.present()
        except (KeyError, AttributeError):
            return None


def is_by_identity(item: Any) -> bool:
    """Whether an object is an instance of a plain class that compares by identity, and lets itself be pickled by its
    state."""
    kind = type(item)
    own = kind.__mro__[:-1]
    return not isinstance(item, type) and not any(
        vars(base).keys() & {"__eq__", "__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__"} for base in own
    )


Known = Mapping[Named, Any]
"""Functions, classes and objects by their names."""


class Names:
    """Finds the places of objects that are known by their identity. `belongs` says of which modules, by name."""

    def __init__(self, belongs: Callable[[str], bool] = lambda module: True) -> None:
        self._belongs = belongs
        self._kinds: dict[type, bool] = {}

    def of(self, item: Any) -> Named | None:
        """The place of an object that is known by its identity, in the module of its class; None if it has none there.
        An `object()` is looked for in all modules."""
        kind = type(item)
        if (fits := self._kinds.get(kind)) is None:
            fits = self._kinds[kind] = is_by_identity(item)
        if not fits:
            return None
        homes = list(sys.modules) if kind is object else (kind.__module__, kind.__module__.partition(".")[0])
        return next((place for home in homes if (place := self._place(home, item)) is not None), None)

    def _place(self, module: str, item: Any) -> Named | None:
        if module not in sys.modules or not self._belongs(module):
            return None
        found = list(vars(sys.modules[module]).items())
        return next((Named(module, name) for name, value in found if value is item), None)
