"""How numbers and values are worded, in tables and in figures alike."""

from __future__ import annotations

from collections.abc import Iterable

from framehold_loadtest.report.data import Tradeoff
from framehold_loadtest.report.respects import Respect, Value, value
from framehold_loadtest.stats import Spread

_LABELLED = {"ms", "s", "us", "µs", "B", "bytes", "%"}
"""Units that a label must say; the words of others name theirs."""


def number(figure: float) -> str:
    """Three digits, or all those before the point, with thousands set off."""
    size = abs(figure)
    if size >= 100 or figure == int(figure):
        return f"{figure:,.0f}"
    if size >= 10:
        return f"{figure:.1f}"
    return f"{figure:.2f}" if size >= 1 else f"{figure:.2g}"


def seconds(figure: float | None) -> str:
    """Seconds in milliseconds where they are few, or a dash for none."""
    if figure is None:
        return "-"
    return f"{number(figure * 1e3)} ms" if 0 < figure < 1 else f"{number(figure)} s"


def label(tradeoff: Tradeoff, respect: Respect) -> str:
    """What a respect is called, with the unit that the report measured it in."""
    seen = (
        value(tradeoff.metrics(option, condition), respect)
        for option in tradeoff.options
        for condition in tradeoff.conditions
    )
    unit = next((found.unit for found in seen if isinstance(found, Value)), "")
    return f"{respect.label}, {unit.replace('us', 'µs')}" if unit in _LABELLED else respect.label


def quartiles(found: Value) -> str:
    """The quartiles of a value's turns; nothing without turns, or where all are equal."""
    if len(set(found.turns)) < 2:
        return ""
    spread = Spread.of(found.turns)
    return f"{number(spread.low)} to {number(spread.high)}"


def parts(found: Value) -> str:
    """What a value is made of, or nothing if it is one piece."""
    if len(found.parts) < 2:
        return ""
    if all(part.startswith("round ") for part in found.parts):
        return " · ".join(number(figure) for figure in found.parts.values())
    return " + ".join(f"{number(figure)} {part}" for part, figure in found.parts.items())


def listed(names: Iterable[str], none: str) -> str:
    """Names in a row, or what to say where there are none."""
    return ", ".join(names) or none
