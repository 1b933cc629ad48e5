"""Numbers as people read them: how long, how big, what part, what time. What isn't known is a dash."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from framehold_router.api.wording import UNKNOWN, many, span

__all__ = ["UNKNOWN", "cell", "clock", "left", "many", "part", "quick", "since", "size", "span"]

_DAY = 86_400


def cell(value: Any) -> str:
    """As it is."""
    return UNKNOWN if value in (None, "") else str(value)


def quick(seconds: float | None) -> str:
    """A while that is best short: `3.2 ms`."""
    if seconds is None:
        return UNKNOWN
    return f"{seconds * 1000:.3g} ms" if seconds < 0.9995 else f"{seconds:.2f} s"


def size(count: int | None) -> str:
    """Bytes: `13.2 KiB`."""
    if count is None:
        return UNKNOWN
    return f"{count / 1024:.1f} KiB" if count < 1024 * 1000 else f"{count / 1024**2:,.1f} MiB"


def part(value: float | None) -> str:
    """A part of the whole: `99.9%`."""
    return UNKNOWN if value is None else f"{value:.1%}"


def since(then: float | None, now: float) -> str:
    """How long ago `then` was."""
    return UNKNOWN if then is None else span(now - then)


def left(then: float | None, now: float) -> str:
    """How long it is until `then`."""
    if then is None:
        return UNKNOWN
    return span(then - now) if then > now else "over"


def clock(at: float | None, now: float) -> str:
    """The time of day here, with the day where it was another one."""
    if at is None:
        return UNKNOWN
    try:
        local = datetime.fromtimestamp(at, UTC).astimezone()
    except (OverflowError, OSError, ValueError):
        return f"{at:g}"
    return local.strftime("%H:%M:%S" if abs(now - at) < _DAY / 2 else "%Y-%m-%d %H:%M:%S")
