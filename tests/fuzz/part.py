"""A part of the fuzz: what it draws from seeds for some seconds, and what it has done."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import NamedTuple


class Outcome(NamedTuple):
    """`tried` inputs were tried, `found` says what is wrong, and `seen` how much of the target they reached."""

    tried: int
    found: list[str]
    seen: str = ""


async def played(seed: int, seconds: float, wrong: Callable[[int], Awaitable[str | None]]) -> Outcome:
    """Try the seeds that begin with `seed`, for some seconds; `wrong` says what is wrong with one."""
    end, number, found = time.monotonic() + seconds, seed, list[str]()
    while time.monotonic() < end:
        if (what := await wrong(number)) is not None:
            found.append(f"seed {number}: {what}")
        number += 1
    return Outcome(number - seed, found)


def mangled(draw: Random, data: bytes, pieces: tuple[bytes, ...]) -> bytes:
    """The data with a fault at any byte: cut off or out, a bit flipped, a piece put in or in its place, or repeated."""
    at, size = draw.randrange(len(data) + 1), draw.choice((0, 1, 2, 9))
    match draw.randrange(6):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[at + size :]
        case 2 if data:
            at = min(at, len(data) - 1)
            return data[:at] + bytes((data[at] ^ 1 << draw.randrange(8),)) + data[at + 1 :]
        case 3:
            return data[:at] + data[max(0, at - 40) : at] + data[at:]
        case 4:
            return data + draw.choice(pieces)
    return data[:at] + draw.choice(pieces) + data[at + size :]
