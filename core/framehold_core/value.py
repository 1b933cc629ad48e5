"""The base of core's values: events, effects, requests, records and the states of calls.

The law: a value never changes. `replace` makes the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, dataclass_transform

import msgspec
from msgspec.structs import asdict, astuple

if TYPE_CHECKING:
    # The same function for type checkers, which know from it what fields a value has.
    from dataclasses import replace
else:
    from msgspec.structs import replace

__all__ = ["Value", "asdict", "astuple", "replace"]


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True):
    """An immutable value with named fields. It equals a value of its own class whose fields are equal, and no other."""
