"""JSON as every part of a node reads and writes it: the fast way, and by the standard library where that fails.

The standard library takes more: half of a surrogate pair (a text that a JavaScript client has cut inside of an emoji),
a byte order mark, UTF-16 and UTF-32, and values that are nested deeper. The SDK reads requests with it, so whatever
it takes is a request.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from pydantic_core import PydanticSerializationError, from_json, to_json

_ESCAPED_BACKSLASH, _ESCAPED_QUOTE, _QUOTE = rb"\\", rb"\"", b'"'
_ITEM_BYTES, _OBJECT_BYTES = 72, 128
"""Bytes that a value takes in memory at most beside its text: an item of a list, a key, or a list; an object."""
_WIDE = re.compile(rb"[\xf0-\xf4]|\\u[dD]")
"""What a character beyond the Basic Multilingual Plane begins with, as UTF-8 or escaped."""


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


def write_finite(value: Any) -> bytes:
    """As `write`, with null in the place of a number that is not finite: JSON has none. The SDK writes null, too."""
    try:
        return to_json(value, inf_nan_mode="null")
    except (PydanticSerializationError, UnicodeEncodeError):
        return write(json.loads(json.dumps(value), parse_constant=lambda name: None))


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can carry a text: it has no half of a surrogate pair."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Weight(NamedTuple):
    """Bytes of memory that the value of a JSON text takes at most: for characters, and for lists, objects and items."""

    characters: int
    structure: int


def weight(data: bytes, limit: int) -> Weight:
    """The weight of a JSON text. Nothing is parsed. Beyond `limit` the structure may be any number above `limit`.

    A text of 4 MiB may take 120 MiB as a value: an empty list is two bytes in the text, and 56 in memory."""
    characters, structure = _text_bytes(data), _structure_bytes(data)
    # A NUL is in no UTF-8 text of JSON: how other encodings escape is not known here.
    if structure <= limit or b"\0" in data:
        return Weight(characters, structure)
    unescaped = data.replace(_ESCAPED_BACKSLASH, b"").replace(_ESCAPED_QUOTE, b"")
    if (strings := unescaped.count(_QUOTE) // 2 * _ITEM_BYTES) > limit:
        return Weight(characters, strings)
    # What stands inside of strings is no structure.
    return Weight(characters, _structure_bytes(b"".join(unescaped.split(_QUOTE)[::2])))


def _structure_bytes(text: bytes) -> int:
    items = text.count(b",") + text.count(b":") + text.count(b"[")
    return items * _ITEM_BYTES + text.count(b"{") * _OBJECT_BYTES


def _text_bytes(text: bytes) -> int:
    """Bytes that the characters of a text take: one wide character makes all of its string as wide."""
    if text.isascii() and rb"\u" not in text:
        return len(text)
    return len(text) * (2 if _WIDE.search(text) is None else 4)
