"""Finds FRAMEHOLD_ variables that nothing reads. Most are typing mistakes."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable

from framehold.config import Settings
from framehold_router.config import RouterSettings

from .findings import Finding, warn

_PREFIX = "FRAMEHOLD_"
_OTHERS = ("FRAMEHOLD_ADMIN_TOKEN", "FRAMEHOLD_SECRET")
"""Variables that are no settings: the first is for commands, and `up` sets it; examples/haproxy.cfg reads the
second."""
_UNREAD = "is set, and nothing reads it"


def known() -> list[str]:
    """All names that something reads, sorted."""
    fields = {*Settings.model_fields, *RouterSettings.model_fields}
    return sorted({f"{_PREFIX}{field.upper()}" for field in fields} | set(_OTHERS))


def unknown(names: Iterable[str] | None = None) -> list[Finding]:
    """A warning for each FRAMEHOLD_ name that nothing reads. By default the names are those of this process's
    environment."""
    given = {**os.environ} if names is None else names
    every = known()
    # Settings are read in any case, too.
    odd = [name for name in sorted(given) if name.upper().startswith(_PREFIX) and name.upper() not in every]
    return [_odd(name, every) for name in odd]


def lines(names: Iterable[str] | None = None) -> list[str]:
    """The warnings of `unknown` as lines, for the log of a process that starts."""
    return [f"{one.says}; {one.do}" for one in unknown(names)]


def is_line(text: str) -> bool:
    """Whether a line of a log has a warning of `lines`."""
    return f" {_UNREAD}; " in text


def _odd(name: str, every: list[str]) -> Finding:
    # The prefix is removed, because with it every name would be a close match.
    near = difflib.get_close_matches(
        name.upper().removeprefix(_PREFIX), [one.removeprefix(_PREFIX) for one in every], n=1
    )
    do = (
        f"did you mean {_PREFIX}{near[0]}?"
        if near
        else "unset it, or see docs/settings.md for the names of all settings"
    )
    return warn("environment", f"{name} {_UNREAD}", do)
