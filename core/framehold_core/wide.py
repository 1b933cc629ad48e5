"""NamedTuples of many fields."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

TupleT = TypeVar("TupleT", bound=NamedTuple)


def wide(kind: type[TupleT]) -> type[TupleT]:
    """Make `_replace` of a NamedTuple cost by what it changes: its own asks for each field whether it is one of them,
    which takes twice as long where few of many are."""
    places = {name: place for place, name in enumerate(kind._fields)}
    new = tuple.__new__

    def _replace(self: TupleT, **changes: Any) -> TupleT:
        fields = [*self]
        for name, value in changes.items():
            fields[places[name]] = value
        return new(kind, fields)

    kind._replace = _replace  # type: ignore[misc, assignment]  # a class can't override a NamedTuple's own
    return kind
