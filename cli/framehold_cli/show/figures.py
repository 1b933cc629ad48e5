"""Formats durations, sizes, shares and times for people. An unknown value is a dash."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from framehold_router.verdict.wording import UNKNOWN, many, span

__all__ = ["UNKNOWN", "cell", "clock", "left", "many", "part", "quick", "since", "size", "span"]

_DAY = 86_400


def cell(value: Any) -> str:
    """Any value as text."""
    return UNKNOWN if value in (None, "") else str(value)


def quick(seconds: float | None) -> str:
    """A short duration, from seconds: `3.2 ms`, `1.25 s`."""
    if seconds is None:
        return UNKNOWN
    return f"{seconds * 1000:.3g} ms" if seconds < 0.9995 else f"{seconds:.2f} s"


def size(count: int | None) -> str:
    """A number of bytes: `13.2 KiB`."""
    if count is None:
        return UNKNOWN
    return f"{count / 1024:.1f} KiB" if count < 1024 * 1000 else f"{count / 1024**2:,.1f} MiB"


def part(value: float | None) -> str:
    """A share, from 0 to 1: `99.9%`."""
    return UNKNOWN if value is None else f"{value:.1%}"


def since(then: float | None, now: float) -> str:
    """The duration from `then` to `now`, both in seconds since 1970."""
    return UNKNOWN if then is None else span(now - then)


def left(then: float | None, now: float) -> str:
    """The duration from `now` to `then`, both in seconds since 1970; `over` if `then` has passed."""
    if then is None:
        return UNKNOWN
    return span(then - now) if then > now else "over"


def clock(at: float | None, now: float) -> str:
    """The local time of `at`, in seconds since 1970; with the date if it is half a day or more from `now`."""
    if at is None:
        return UNKNOWN
    try:
        local = datetime.fromtimestamp(at, UTC).astimezone()
    except (OverflowError, OSError, ValueError):
        return f"{at:g}"
    return local.strftime("%H:%M:%S" if abs(now - at) < _DAY / 2 else "%Y-%m-%d %H:%M:%S")
