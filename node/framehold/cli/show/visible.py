"""Makes text from a server safe for a terminal. Characters that move the cursor, or hide or reverse other text, are
escaped."""

from __future__ import annotations

import re

_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_JOINERS = "\u200c\u200d"
"""Invisible characters that are kept, because some scripts and many emoji need them."""


def line(text: str) -> str:
    """The text as one line: line ends and tabs are escaped too."""
    return _UNSEEN.sub(_shown, text)


def block(text: str) -> str:
    """The text with its line ends and tabs; other control characters are escaped."""
    return _UNSEEN.sub(lambda found: found[0] if found[0] in "\n\t" else _shown(found), text.replace("\r\n", "\n"))


def _shown(found: re.Match[str]) -> str:
    char = found[0]
    if char in _JOINERS:
        return char
    return ascii(char)[1:-1]
