"""The types of the API's fields.

The law: every text is made printable. A node lease may hold any text that JSON can write, even a lone surrogate, and
one odd lease must not break a page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

MAX_TEXT_CHARACTERS = 200
"""Characters of a text that are kept at most."""
MAX_LEASE_CHARACTERS = 64
"""Characters of a text that are kept at most of a node lease."""
MAX_NUMBER = 2**53
"""The largest number: other readers of JSON would round a larger one."""


def printable(value: Any) -> Any:
    """A text with `?` for each character that UTF-8 can't encode, cut to MAX_TEXT_CHARACTERS. Other values are returned
    as they are."""
    return value.encode("utf-8", "replace").decode()[:MAX_TEXT_CHARACTERS] if isinstance(value, str) else value


Number = TypeVar("Number", int, float)


def summed(numbers: Iterable[Number]) -> Number:
    """The sum of counts, or of seconds, MAX_NUMBER at most: it must fit a model as each of them does."""
    return min(MAX_NUMBER, sum(numbers))


def matches(wanted: str | None, name: str) -> bool:
    """Whether a filter names `name`: the whole of it, or with `*` for any text. With `*`, case does not count. No
    filter names all."""
    if wanted is None:
        return True
    wanted, name = printable(wanted), printable(name)
    if "*" not in wanted:
        return wanted == name
    # In brackets the other signs of fnmatch stand for themselves.
    return fnmatchcase(name.lower(), re.sub(r"[?[]", r"[\g<0>]", wanted.lower()))


Text = Annotated[str, BeforeValidator(printable)]
LeaseText = Annotated[
    str, BeforeValidator(lambda value: printable(value)[:MAX_LEASE_CHARACTERS] if isinstance(value, str) else value)
]
"""A text that the node's lease has, too: it is the same in both."""
Count = Annotated[int, Field(ge=0, le=MAX_NUMBER, strict=True)]
Seconds = Annotated[float, Field(ge=0, le=MAX_NUMBER, allow_inf_nan=False)]
"""Seconds: a duration, or a time since 1970, as the description of the model says."""
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""A part of a whole, from 0 to 1."""


class Lenient(BaseModel):
    """The answer of another process. Unknown fields, which a newer release may send, are ignored."""

    model_config = ConfigDict(frozen=True)
