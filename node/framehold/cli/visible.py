"""Text that comes from a server, made fit for a terminal: nothing in it moves the cursor, hides or turns round what
else is shown."""

from __future__ import annotations

import re

_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_JOINERS = "\u200c\u200d"
"""Letters of some scripts, and many an emoji, are spelt with them."""


def line(text: str) -> str:
    """As one line."""
    return _UNSEEN.sub(_shown, text)


def block(text: str) -> str:
    """As lines, with tabs."""
    return _UNSEEN.sub(lambda found: found[0] if found[0] in "\n\t" else _shown(found), text.replace("\r\n", "\n"))


def _shown(found: re.Match[str]) -> str:
    char = found[0]
    if char in _JOINERS:
        return char
    return ascii(char)[1:-1]
