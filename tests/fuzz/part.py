"""What a part of the fuzz has done."""

from __future__ import annotations

from typing import NamedTuple


class Outcome(NamedTuple):
    """`tried` inputs were tried, `found` says what is wrong, and `seen` how much of the target they reached."""

    tried: int
    found: list[str]
    seen: str = ""
