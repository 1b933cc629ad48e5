"""A table of texts for a terminal or a page, and the columns that it is made of.

A column finds one or more values of a row by their paths in the JSON ("cpu_per_request.middle"), and writes them with a
format. A table of few rows may show its columns as lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from framehold_loadtest import marked_page
from framehold_loadtest.stats import Spread

NONE = "-"
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """What a section shows: lines of cells, the first one its heads; no lines if nothing could be measured.

    `notes` explain it or add to it; `missing` gives by name what was not available, and why.
    """

    title: str
    lines: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    missing: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """For a terminal."""
        below = [f"  {line}" for line in self._below()]
        return "\n".join(["", self.title, *_aligned(self.lines), *below])

    def markdown(self) -> str:
        """For a page: the title in bold, what stands below as a list."""
        parts = [f"**{self.title}**"] if self.title else []
        if self.lines:
            heads, *rows = self.lines
            parts.append(marked_page.table(heads, rows))
        below = "\n".join(f"- {line}" for line in self._below())
        return "\n\n".join([*parts, below] if below else parts)

    def _below(self) -> list[str]:
        return [*self.notes, *(f"{name}: not available: {reason}" for name, reason in self.missing.items())]


@dataclass(frozen=True, slots=True)
class Column:
    """Its heads, and from a row as many cells."""

    heads: tuple[str, ...]
    cells: Callable[[Row], Sequence[str]]


def value(head: str, paths: str, form: str = "{:.0f}", scale: float = 1) -> Column:
    """The values at `paths`, which are apart by blanks, each times `scale`, written with `form`."""

    def cells(row: Row) -> Sequence[str]:
        found = [at(row, path) for path in paths.split()]
        return [form.format(*(one if isinstance(one, str) else one * scale for one in found))]

    return Column((head,), cells)


def text(head: str, path: str) -> Column:
    """The value at a path as it is."""
    return value(head, path, "{}")


def unless_zero(head: str, path: str, form: str = "{:.0f}", scale: float = 1e6) -> Column:
    """The value at a path, or a dash for 0: no such process took part."""
    shown = value(head, path, form, scale)
    return Column((head,), lambda row: shown.cells(row) if at(row, path) else [NONE])


def ratios(head: str, path: str) -> Column:
    """The median of some ratios, and in a second column their quartiles."""

    def cells(row: Row) -> Sequence[str]:
        if not at(row, path):
            return [NONE, NONE]
        found = Spread.of(at(row, path))
        return [f"{found.middle:.2f}", f"{found.low:.2f}-{found.high:.2f}"]

    return Column((head, "(quartiles)"), cells)


def middle(head: str, path: str) -> Column:
    """The median of some ratios alone; a dash without one."""

    def cells(row: Row) -> Sequence[str]:
        found = at(row, path)
        return [f"{median(found):.2f}" if found else NONE]

    return Column((head,), cells)


def spread(head: str, path: str, digits: int, scale: float = 1e6) -> Column:
    """A median and its quartiles; seconds as microseconds unless `scale` says otherwise. A dash without a spread."""

    def cells(row: Row) -> Sequence[str]:
        found = at(row, path)
        return [quartiles(found, digits, scale) if found and found["middle"] else NONE]

    return Column((head,), cells)


def quartiles(found: Mapping[str, float], digits: int, scale: float = 1e6) -> str:
    """A spread as a text."""
    middle, low, high = (f"{found[name] * scale:,.{digits}f}" for name in ("middle", "low", "high"))
    return f"{middle} ({low}-{high})"


def computed(head: str, cell: Callable[[Row], str]) -> Column:
    """What a function makes of the row."""
    return Column((head,), lambda row: [cell(row)])


LATENCIES = (
    value("round 1 p50/p99 ms", "first_p50 first_p99", "{:.1f} / {:.1f}", 1e3),
    value("round 2 p50/p99 ms", "second_p50 second_p99", "{:.1f} / {:.1f}", 1e3),
)
ERRORS = computed("errors", lambda row: str(sum(row["errors"].values())))


def lines(columns: Sequence[Column], rows: Sequence[Row]) -> list[list[str]]:
    """The heads, then a line for each row."""
    heads = [head for column in columns for head in column.heads]
    return [heads, *([cell for column in columns for cell in column.cells(row)] for row in rows)]


def errors_of(rows: Sequence[Row], name: str) -> list[str]:
    """A note for each kind of error of each row, which is known by its value of `name`."""
    return [f"{row[name]}: {count} x {kind}" for row in rows for kind, count in row["errors"].items()]


def at(row: Row, path: str) -> Any:
    """The value at a path of keys; None if one of them is missing."""
    found: Any = row
    for key in path.split("."):
        found = found.get(key) if found is not None else None
    return found


def head(facts: Mapping[str, str]) -> str:
    """The lines that say what the figures were measured on."""
    width = max(map(len, facts))
    return "\n".join(f"{label:<{width}}  {fact}" for label, fact in facts.items())


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))] if lines else []
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    ]
