"""JSON as every part of a node reads and writes it: the fast way, and by the standard library where that fails.

The standard library takes more: half of a surrogate pair (a text that a JavaScript client has cut inside of an emoji),
a byte order mark, UTF-16 and UTF-32, and values that are nested deeper. The SDK reads requests with it, so whatever
it takes is a request.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json


def read(data: bytes | str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is none.
        RecursionError: it is nested too deep.
    """
    try:
        return from_json(data)
    except ValueError:
        return json.loads(data)


def write(value: Any) -> bytes:
    """A value as JSON. What UTF-8 can't carry is escaped.

    Raises:
        TypeError, ValueError: JSON can't carry it.
        RecursionError: it is nested too deep.
    """
    try:
        return to_json(value)
    except (PydanticSerializationError, UnicodeEncodeError):
        return json.dumps(value, separators=(",", ":")).encode()
