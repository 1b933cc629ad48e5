"""The one writer of tables: columns that find their values in rows, a table for a terminal, and for a page in
Markdown, and the marks of pages between which tables are put.

A column finds one or more values of a row by their paths in the JSON ("cpu_per_request.middle"), and writes them with a
format.

Law: all pages are written or none, and a part holds the figures of one run. A mark names its program, so several
programs can fill one page. A page has the parts whose marks are on it, so one run can fill several pages.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from framehold_loadtest.stats import Spread

NONE = "-"
END = "<!-- end -->"
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """One place in a table: its text, a softer second line, and its kind: "", "best", "missing"."""

    text: str
    small: str = ""
    kind: str = ""


Cell = str | Entry


def absent(why: str) -> Entry:
    """The place of what has no value, and why."""
    return Entry("not available", why, "missing")


@dataclass(frozen=True, slots=True)
class Table:
    """Lines of cells, the first one its heads; no lines if nothing could be measured.

    `notes` explain it or add to it; `missing` gives by name what was not available, and why.
    """

    title: str
    lines: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def entries(self) -> list[list[Entry]]:
        """The lines; each cell is an `Entry`."""
        return [[Entry(cell) if isinstance(cell, str) else cell for cell in line] for line in self.lines]

    def text(self) -> str:
        """For a terminal."""
        texts = [[cell.text for cell in line] for line in self.entries]
        below = [f"  {line}" for line in self._below()]
        return "\n".join(["", self.title, *_aligned(texts), *below])

    def markdown(self, *, heading: bool = False) -> str:
        """For a page. The title is in bold, or a heading. The reason of a value that is missing is a number in
        brackets, and stands in the list below."""
        title = f"### {self.title[:1].upper()}{self.title[1:]}" if heading else f"**{self.title}**"
        parts, reasons = [title] if self.title else [], dict[str, int]()
        if self.lines:
            heads, *rows = [[_marked(cell, reasons) for cell in line] for line in self.entries]
            parts.append(markdown(heads, rows))
        parts += self._below() if heading else []
        below = [f"- {line}" for line in (() if heading else self._below())]
        below += [f"- [{number}] not available: {why}" for why, number in reasons.items()]
        return "\n\n".join([*parts, *(["\n".join(below)] if below else [])])

    def _below(self) -> list[str]:
        return [*self.notes, *(f"{name}: not available: {reason}" for name, reason in self.missing.items())]


def number(figure: float) -> str:
    """Three digits, or all those before the point, with thousands set off."""
    size = abs(figure)
    if size >= 100 or figure == int(figure):
        return f"{figure:,.0f}"
    if size >= 10:
        return f"{figure:.1f}"
    return f"{figure:.2f}" if size >= 1 else f"{figure:.2g}"


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _marked(cell: Entry, reasons: dict[str, int]) -> str:
    if cell.kind == "missing" and cell.small:
        return f"[{reasons.setdefault(cell.small, len(reasons) + 1)}]"
    text = f"**{cell.text}**" if cell.kind == "best" else cell.text
    return (f"{text} ({cell.small})" if cell.small else text).replace("|", "\\|").replace("\n", " ")


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))] if lines else []
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    ]


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
    return computed(head, lambda row: f"{median(at(row, path)):.2f}" if at(row, path) else NONE)


def spread(head: str, path: str) -> Column:
    """The median of some seconds and their quartiles, in microseconds."""

    def cell(row: Row) -> str:
        found = Spread.of(at(row, path))
        middle, low, high = (f"{seconds * 1e6:,.0f}" for seconds in (found.middle, found.low, found.high))
        return f"{middle} ({low}-{high})"

    return computed(head, cell)


def places(head: str, *names: str) -> Column:
    """What each of several processes took, in microseconds; a dash for one that took no part."""
    return computed(head, lambda row: " / ".join(f"{row[name] * 1e6:.0f}" if row[name] else NONE for name in names))


def computed(head: str, cell: Callable[[Row], str]) -> Column:
    """What a function makes of the row."""
    return Column((head,), lambda row: [cell(row)])


def lines(columns: Sequence[Column], rows: Sequence[Row]) -> list[list[str]]:
    """The heads, then a line for each row; nothing where there is no row."""
    heads = [head for column in columns for head in column.heads]
    return [heads, *([cell for column in columns for cell in column.cells(row)] for row in rows)] if rows else []


def turned(columns: Sequence[Column], rows: Sequence[Row], heads: Sequence[str]) -> list[list[str]]:
    """A line for each column, and under each of `heads` the cells of a row."""
    return [["", *heads], *([one.heads[0], *(one.cells(row)[0] for row in rows)] for one in columns)] if rows else []


def at(row: Row, path: str) -> Any:
    """The value at a path of keys; None if one of them is missing."""
    found: Any = row
    for key in path.split("."):
        found = found.get(key) if found is not None else None
    return found


def facts(found: Mapping[str, str]) -> str:
    """The lines that say what the figures were measured on."""
    width = max(map(len, found))
    return "\n".join(f"{label:<{width}}  {fact}" for label, fact in found.items())


def begin(program: str, name: str) -> str:
    """The mark before a part: of a program, as it is started, and by the part's name."""
    return f"<!-- begin: {program}: {name} -->"


def names(text: str, program: str) -> list[str]:
    """The parts of a program that a page has marks for, in its order."""
    return re.findall(f"<!-- begin: {re.escape(program)}: (.+?) -->", text)


def written(text: str, program: str, parts: Mapping[str, str]) -> str:
    """A page with the program's parts between those marks that it has.

    Raises:
        ValueError: it has no mark of the program, one of a part that is not there, or one without an end; nothing was
            written.
    """
    there = names(text, program)
    if not there:
        first = begin(program, next(iter(parts)))
        raise ValueError(f"the page has no mark such as {first!r}; nothing was written; put one there")
    for name in there:
        start = begin(program, name)
        head, _, rest = text.partition(start)
        _, end, tail = rest.partition(END)
        if name not in parts:
            raise ValueError(f"nothing fills {start!r}; nothing was written; there are: {', '.join(parts)}")
        if not end:
            raise ValueError(f"the page lacks {END!r} behind {start!r}; nothing was written; put it back")
        text = f"{head}{start}\n{parts[name]}\n{END}{tail}"
    return text


def fill(pages: Iterable[Path], program: str, parts: Mapping[str, str]) -> None:
    """Put into each of these pages the parts that it has marks for.

    Raises:
        OSError: one can't be read or written.
        ValueError: one can't be filled; nothing was written.
    """
    texts = [(page, written(page.read_text(encoding="utf-8"), program, parts)) for page in pages]
    for page, text in texts:
        page.write_text(text, encoding="utf-8")


def add_pages(parser: argparse.ArgumentParser) -> None:
    """The option `page` of a program: the pages that it fills."""
    parser.add_argument(
        "--page", type=Path, metavar="PATH", action="append", default=[],
        help="put the tables between the marks of this page (repeatable): each page gets those that it has marks for",
    )  # fmt: skip
