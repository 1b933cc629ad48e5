"""A function with one piece of its text replaced: the shortest way to say what a mutation breaks."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable
from typing import Any

from framehold_core import continuation, lease, record
from framehold_core.call import Phase
from framehold_core.continuation import TABLE
from framehold_core.value import replace

Patch = tuple[Any, Any, Any]
"""A place (an object and an attribute, or a mapping and a key), and what stands there instead."""


def edited(function: Callable[..., Any], old: str, new: str) -> Callable[..., Any]:
    """The function with `new` where its source says `old`. It looks up other names as the original does.

    Raises:
        AssertionError: the source does not say `old` once. Whoever changed it looks at the mutation anew.
    """
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1, f"{function.__qualname__} says {source.count(old)} times: {old}"
    made: dict[str, Any] = {}
    future = "from __future__ import annotations\n"
    exec(compile(future + source.replace(old, new), "<mutation>", "exec"), vars(sys.modules[function.__module__]), made)
    found: Callable[..., Any] = made[function.__name__]
    return found


def row(key: tuple[Phase, type[Any]], move: Any) -> tuple[Patch, ...]:
    """Another move in one row of the table."""
    return ((TABLE, key, replace(TABLE[key], move=move)),)


def rows(kind: type[Any], move: Any) -> tuple[Patch, ...]:
    """That move in each row of an event that is not a mere signal there."""
    return tuple(
        (TABLE, key, replace(row, move=move))
        for key, row in TABLE.items()
        if key[1] is kind and row.move is not continuation.ignore
    )


def function(place: Any, name: str, old: str, new: str) -> tuple[Patch, ...]:
    """A function, with a piece of its text replaced."""
    return ((place, name, edited(getattr(place, name), old, new)),)


def fence(old: str, new: str) -> tuple[Patch, ...]:
    """The check of the fence, with a piece of its text replaced."""
    return function(record, "check_fence", old, new)


def script(kind: type[Any], old: str, new: str) -> tuple[Patch, ...]:
    """One script of the store, with a piece of its text replaced."""
    return ((record._SCRIPTS, kind, edited(record._SCRIPTS[kind], old, new)),)


def tenure(method: str, old: str, new: str) -> tuple[Patch, ...]:
    """One step of the node's lease, with a piece of its text replaced."""
    return function(lease.Tenure, method, old, new)


def not_found(*findings: lease.LeaseFinding) -> tuple[Patch, ...]:
    """What a reply says of the node's lease, without some rows."""
    return ((lease, "ROWS", tuple(row for row in lease.ROWS if row.then not in findings)),)
