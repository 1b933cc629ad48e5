"""Spans and counts as sentences have them."""

from __future__ import annotations

UNKNOWN = "-"
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def span(seconds: float | None) -> str:
    """The two largest units of a while: `3m 12s`."""
    if seconds is None:
        return UNKNOWN
    parts: list[str] = []
    left = max(0, int(seconds))
    for unit, size in _UNITS:
        if left >= size or (unit == "s" and not parts):
            parts.append(f"{left // size}{unit}")
            left %= size
        elif parts:
            break
    return " ".join(parts[:2])


def many(count: int, one: str, more: str = "") -> str:
    """`1 call`, `2 calls`."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"
