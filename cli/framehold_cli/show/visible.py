"""Makes text from a server safe for a terminal. Characters that move the cursor, or hide or reverse other text, are
escaped: controls, format characters, line and paragraph separators, and halves of surrogate pairs (Unicode's categories
Cc, Cf, Zl, Zp and Cs)."""

from __future__ import annotations

from unicodedata import category

_UNSEEN = frozenset(("Cc", "Cf", "Zl", "Zp", "Cs"))
_JOINERS = "\u200c\u200d"
"""Format characters that are kept, because some scripts and many emoji need them."""


def line(text: str) -> str:
    """The text as one line: line ends and tabs are escaped too."""
    return _escaped(text, _JOINERS)


def block(text: str) -> str:
    """The text with its line ends and tabs; other control characters are escaped."""
    return _escaped(text.replace("\r\n", "\n"), _JOINERS + "\n\t")


def encodable(text: str) -> bool:
    """Whether UTF-8 can hold the text. It holds no half of a surrogate pair, as which Python reads bytes that are no
    text."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _escaped(text: str, kept: str) -> str:
    if text.isprintable():
        return text
    return "".join(ascii(char)[1:-1] if category(char) in _UNSEEN and char not in kept else char for char in text)
