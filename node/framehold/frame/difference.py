"""The first place where two JSON values differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()
"""In place of a value that one of the two does not have."""


def difference(was: Any, now: Any, path: str) -> tuple[str, Any, Any] | None:
    """The first place where two JSON values differ (a path after `path`), and both values there; None if they are
    equal."""
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        parts = [(f"{path}.{key}", was.get(key, ABSENT), now.get(key, ABSENT)) for key in {**was, **now}]
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        parts = [(f"{path}[{n}]", *pair) for n, pair in enumerate(zip(was, now, strict=True))]
    else:
        return None if was == now and type(was) is type(now) else (path, was, now)
    found = (difference(before, after, name) for name, before, after in parts)
    return next((item for item in found if item is not None), None)
