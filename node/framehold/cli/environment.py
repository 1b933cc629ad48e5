"""Names in the environment that look like settings of Framehold and are none: most often a slip of the pen."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable

from framehold_router.config import RouterSettings

from ..config import Settings
from .findings import Finding, warn

_PREFIX = "FRAMEHOLD_"
_OTHERS = ("FRAMEHOLD_ADMIN_TOKEN", "FRAMEHOLD_SECRET")
"""What `up` gives its processes, and what examples/haproxy.cfg reads."""
_UNREAD = "is set, and nothing reads it"


def known() -> list[str]:
    """Every name that something reads."""
    fields = {*Settings.model_fields, *RouterSettings.model_fields}
    return sorted({f"{_PREFIX}{field.upper()}" for field in fields} | set(_OTHERS))


def unknown(names: Iterable[str] | None = None) -> list[Finding]:
    """A warning for each name that nothing reads; by default of this process's environment."""
    given = {**os.environ} if names is None else names
    every = known()
    # As settings are read: whatever the case.
    odd = [name for name in sorted(given) if name.upper().startswith(_PREFIX) and name.upper() not in every]
    return [_odd(name, every) for name in odd]


def lines(names: Iterable[str] | None = None) -> list[str]:
    """The same for whoever starts a process: a line each."""
    return [f"{one.says}; {one.do}" for one in unknown(names)]


def is_line(text: str) -> bool:
    """Whether this is one of these lines, as some process logs it."""
    return f" {_UNREAD}; " in text


def _odd(name: str, every: list[str]) -> Finding:
    # Without what all of them have in common, or every name would be near.
    near = difflib.get_close_matches(
        name.upper().removeprefix(_PREFIX), [one.removeprefix(_PREFIX) for one in every], n=1
    )
    do = f"did you mean {_PREFIX}{near[0]}?" if near else "unset it, or see the README for the names of all settings"
    return warn("environment", f"{name} {_UNREAD}", do)
