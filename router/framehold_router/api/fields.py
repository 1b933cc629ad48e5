"""What the fields of the API hold.

The law: every text is made fit to print. A node lease may hold anything that JSON can spell, half of a surrogate pair
too, and one odd lease must not take a page down.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

LONGEST = 200
"""Characters of a text that are kept."""


def printable(value: Any) -> Any:
    """A text without what UTF-8 can't carry, and not too long; anything else as it is."""
    return value.encode("utf-8", "replace").decode()[:LONGEST] if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(printable)]
Count = Annotated[int, Field(ge=0, le=2**53, strict=True)]
Seconds = Annotated[float, Field(ge=0, le=2**53, allow_inf_nan=False)]
"""A duration, or since 1970: the name of the field says which."""


class Lenient(BaseModel):
    """What another process says: of a newer release it may say more."""

    model_config = ConfigDict(frozen=True)
