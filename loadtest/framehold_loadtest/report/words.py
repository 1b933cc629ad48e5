"""How numbers, values and contests are worded, in tables and in figures alike."""

from __future__ import annotations

from collections.abc import Iterable

from framehold_loadtest.report.data import Tradeoff
from framehold_loadtest.report.respects import Respect, Value, value
from framehold_loadtest.report.winners import Contest

_LABELLED = {"ms", "s", "us", "µs", "B", "bytes"}
"""Units that a label must say; the others are said by its words."""


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


def milliseconds(figure: float | None) -> str:
    """Milliseconds in seconds where they are many, or a dash for none."""
    return seconds(None if figure is None else figure / 1e3)


def percent(share: float) -> str:
    """A share with as many digits as tell it from the whole."""
    return f"{share:.0%}" if share in (0, 1) else f"{share:.2%}"


def label(tradeoff: Tradeoff, respect: Respect) -> str:
    """What a respect is called, with the unit that the report measured it in."""
    seen = (
        value(tradeoff.metrics(option, condition), respect)
        for option in tradeoff.options
        for condition in tradeoff.conditions
    )
    unit = next((found.unit for found in seen if isinstance(found, Value)), "")
    return f"{respect.label}, {unit.replace('us', 'µs')}" if unit in _LABELLED else respect.label


def parts(found: Value) -> str:
    """What a value is made of, or nothing if it is one piece."""
    if len(found.parts) < 2:
        return ""
    if all(part.startswith("round ") for part in found.parts):
        return " · ".join(number(figure) for figure in found.parts.values())
    return " + ".join(f"{number(figure)} {part}" for part, figure in found.parts.items())


def lead(contest: Contest) -> str:
    """By how much the winners of a contest lead, or that they don't."""
    best, behind = contest.best, contest.next_best
    if best is None:
        return ""
    if behind is None:
        return f"all {number(best)}" if len(set(contest.numbers.values())) == 1 else f"about {number(best)}"
    if contest.lead is None:
        return f"{number(best)}; next {behind[0]} with {number(behind[1])}"
    return f"{number(best)}, {contest.lead:.2g} times as good as {behind[0]}"


def listed(names: Iterable[str], none: str) -> str:
    """Names in a row, or what to say where there are none."""
    return ", ".join(names) or none
