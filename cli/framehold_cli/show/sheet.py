"""Prints the result of an operator's command: lines and tables for people, data for programs, once or repeatedly.

The law: the names of nodes and tools come from others. They are printed so that a terminal does not take them for
control sequences, and a spreadsheet does not take them for formulas.
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from framehold_core.errors import ConfigError
from framehold_router.api import tables

from . import visible
from .output import Output, PlainOutput
from .voice import WIDE, aligned

EVERY = 2.0
"""Seconds between two reads with `--watch`."""
_GREEN, _YELLOW, _RED = "green", "yellow", "red"
_STYLES = {
    **dict.fromkeys(("live", "ok", "parked", "running", "recovered", "done"), _GREEN),
    **dict.fromkeys(("draining", "warn", "orphaned", "released", "under way", "lapsed"), _YELLOW),
    **dict.fromkeys(("dead", "fail", "unreachable", "lost", "stuck", "other keys", "diverged"), _RED),
}


@dataclass(frozen=True)
class Grid:
    """A table. `nothing` is the text that is printed instead if there are no rows."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    nothing: str = ""


@dataclass(frozen=True)
class Sheet:
    """The result of a command. `parts` are for people. `data` is for JSON. `listed` is the API's list that is printed
    as CSV; None if the result is no list. `code` is the exit code."""

    parts: Sequence[Grid | str]
    data: Any
    listed: BaseModel | None = None
    code: int = 0


def lines(texts: Iterable[str]) -> str:
    """Each text as one line; control characters are escaped."""
    return "\n".join(map(visible.line, texts))


def facts(rows: Iterable[Sequence[str]]) -> str:
    """Rows of a name and a value as aligned lines."""
    return aligned([[visible.line(text) for text in row] for row in rows], indent="")


def present(draw: Callable[[], Sheet], output: Output | PlainOutput = Output.TABLE, watch: bool = False) -> int:
    """Print the sheet that `draw` returns; with `watch`, print it again every `EVERY` seconds until Ctrl-C.

    Returns the exit code: the sheet's, or 0 with `watch`.

    Raises:
        ConfigError: the first call of `draw` fails. A later failure is printed, and `draw` is called again.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    output, sheet = Output(output), draw()
    if not watch:
        _put(sheet, output, indent=2)
        return sheet.code
    try:
        if output is Output.TABLE and sys.stdout.isatty():
            _redraw(sheet, draw)
        else:
            _repeat(sheet, draw, output)
    except KeyboardInterrupt:
        pass
    return 0


def show(heads: Sequence[str], rows: Sequence[Sequence[str]], nothing: str) -> None:
    """Print rows as a table in a terminal, and as aligned columns elsewhere. `nothing` is for no rows."""
    _put(Sheet([Grid(heads, rows, nothing)], None), Output.TABLE, indent=2)


def _redraw(first: Sheet, draw: Callable[[], Sheet]) -> None:
    with Live(auto_refresh=False) as live:
        live.update(_redrawn(first, live.console), refresh=True)
        for sheet in _looks(draw):
            live.update(_redrawn(sheet, live.console), refresh=True)


def _redrawn(sheet: Sheet, console: Console) -> Group:
    shown = _drawn(sheet) if _fits(sheet, console) else [Text(_text(sheet))]
    return Group(*shown, _HINT)


_HINT = Text(f"every {EVERY:g} s; Ctrl-C ends it", style="dim")


def _repeat(first: Sheet, draw: Callable[[], Sheet], output: Output) -> None:
    _put(first, output, indent=None)
    for sheet in _looks(draw):
        if output is Output.CSV and sheet.listed is None:
            # The first sheet was a list: this one is an error, and no row.
            print("framehold:", *map(_plain, sheet.parts), file=sys.stderr, flush=True)
            continue
        if output is Output.TABLE:
            print()
        _put(sheet, output, indent=None)


def _looks(draw: Callable[[], Sheet]) -> Iterator[Sheet]:
    while True:
        time.sleep(EVERY)
        try:
            yield draw()
        except ConfigError as error:
            yield Sheet([f"{error}; it is asked again in {EVERY:g} s"], {"error": str(error)})


def _put(sheet: Sheet, output: Output, indent: int | None) -> None:
    if output is Output.JSON:
        print(json.dumps(sheet.data, indent=indent))
    elif output is Output.CSV:
        print(_csv(sheet.listed), end="")
    elif sys.stdout.isatty() and _fits(sheet, console := Console(highlight=False)):
        console.print(*_drawn(sheet), sep="\n")
    else:
        print(_text(sheet))
    # Flushed here, where a closed pipe is no error. Python would report it at the end of the process.
    sys.stdout.flush()


def _text(sheet: Sheet) -> str:
    return "\n\n".join(filter(None, map(_plain, sheet.parts)))


def _plain(part: Grid | str) -> str:
    if isinstance(part, str):
        return visible.block(part)
    return aligned([part.heads, *_visible(part)], indent="") if part.rows else part.nothing


def _drawn(sheet: Sheet) -> Iterator[RenderableType]:
    for part in sheet.parts:
        if isinstance(part, str):
            yield Text(visible.block(part))
        elif part.rows:
            yield _table(part)
        elif part.nothing:
            yield Text(part.nothing)


def _fits(sheet: Sheet, console: Console) -> bool:
    """Whether the terminal is so wide that no table breaks a value: only a text in a last column is broken, between two
    words. A value that is broken can't be copied."""
    return all(_least(part, console) <= console.width for part in sheet.parts if isinstance(part, Grid) and part.rows)


def _least(grid: Grid, console: Console) -> int:
    whole = Measurement.get(console, console.options.update(width=WIDE), _table(grid)).maximum
    last = [row[-1] for row in (grid.heads, *_visible(grid))]
    return whole - max(map(cell_len, last)) + max(cell_len(word) for text in last for word in text.split() or [""])


def _table(grid: Grid) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, head in enumerate(grid.heads, start=1):
        is_last = place == len(grid.heads)
        table.add_column(head, overflow="fold", style="bold" if place == 1 else "", no_wrap=not is_last)
    for row in _visible(grid):
        table.add_row(*(Text(text, style=_STYLES.get(text, "")) for text in row))
    return table


def _visible(grid: Grid) -> list[list[str]]:
    return [[visible.line(text) for text in row] for row in grid.rows]


def _csv(listed: BaseModel | None) -> str:
    """The CSV that the router would send, with control characters escaped."""
    text = None if listed is None else tables.table(listed)
    assert text is not None
    return visible.block(text)
