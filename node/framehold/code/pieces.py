"""What a class consists of beside its attributes: the fields of a model or a dataclass, and the members of an enum."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from .follows import OF_FIELD

_OF_MEMBER = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_", "_inverted_"})
"""What the members of each enum have."""


class Piece(NamedTuple):
    """Texts that name a piece, what it consists of, and where it was found."""

    names: tuple[Any, ...]
    parts: tuple[Any, ...]
    where: str


def pieces_of(kind: type, where: str) -> Iterator[Piece]:
    """The pieces of a class, in an order that is equal in every process. `where` names the class."""
    if issubclass(kind, BaseModel):
        yield from _of_model(kind, where)
    for name, described in sorted(getattr(kind, "__dataclass_fields__", {}).items()):
        names = (name, described.init, described.repr, described.hash, described.compare, described.kw_only)
        settings = (described.default, described.default_factory, dict(described.metadata))
        yield Piece(names, settings, f"the field {name!r} of {where}")
    members = kind.__members__ if issubclass(kind, enum.Enum) else {}
    for name, member in members.items():
        own = sorted(state_of(member).items())
        yield Piece((name, *(key for key, _ in own)), (member.value, *(value for _, value in own)), where)


def state_of(member: enum.Enum) -> dict[str, Any]:
    """What the constructor of an enum's member has set."""
    derived = {
        key
        for base in type(member).__mro__
        for key, found in vars(base).items()
        if isinstance(found, functools.cached_property)
    }
    return {key: value for key, value in vars(member).items() if key not in _OF_MEMBER | derived}


def defaults_of(kind: type) -> dict[str, Any]:
    """The defaults of the fields of a model, a dataclass or a named tuple. Its objects are made with them."""
    if issubclass(kind, BaseModel):
        return {name: field.default for name, field in kind.model_fields.items()}
    if dataclasses.is_dataclass(kind):
        return {field.name: field.default for field in dataclasses.fields(kind)}
    return dict(getattr(kind, "_field_defaults", {})) if issubclass(kind, tuple) else {}


def _of_model(kind: type[BaseModel], where: str) -> Iterator[Piece]:
    """The fields of a model: the schema that clients get, and the functions in it."""
    try:
        yield Piece((repr(kind.model_json_schema()),), (), where)
    except Exception:
        # A field has no form in JSON.
        yield Piece(tuple(kind.model_fields), (), where)
    for name, field in kind.model_fields.items():
        settings = sorted(set(type(field).__slots__) - OF_FIELD)
        found = tuple(getattr(field, setting, None) for setting in settings)
        yield Piece((name, *settings), found, f"the field {name!r} of {where}")
    for name, private in sorted(getattr(kind, "__private_attributes__", {}).items()):
        yield Piece((name,), (private.default, private.default_factory), f"the private attribute {name!r} of {where}")
    decorators = getattr(kind, "__pydantic_decorators__", None)
    for group in dataclasses.fields(decorators) if dataclasses.is_dataclass(decorators) else ():
        found = getattr(decorators, group.name)
        for name, item in found.items() if isinstance(found, Mapping) else ():
            infos = dataclasses.fields(item.info) if dataclasses.is_dataclass(item.info) else ()
            names = tuple(info.name for info in infos)
            parts = tuple(getattr(item.info, info) for info in names)
            yield Piece((group.name, name, *names), parts, f"{name!r} of {where}")
