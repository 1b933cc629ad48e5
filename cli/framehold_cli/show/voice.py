"""Prints the lines of `framehold up` and of its processes. Each line is one write, so that lines are not mixed.

In a terminal the processes' names are coloured; elsewhere lines are plain.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_red")
WIDE = 10_000
"""Columns for Rich, enough to break no line: a URL or a command on two lines can't be copied."""


class Voice:
    """The only writer to the terminal. A closed pipe is no error; further lines are dropped."""

    def __init__(self, out: TextIO | None = None, colour: bool | None = None) -> None:
        self._out = sys.stdout if out is None else out
        self.colour = self._out.isatty() if colour is None else colour
        self._names: dict[str, str] = {}
        self._width = 0

    def names(self, names: Sequence[str]) -> None:
        """Set the names of the processes. They give each process a colour, and all prefixes one width."""
        self._width = max(map(len, names), default=0)
        self._names = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(names)}

    def say(self, text: str) -> None:
        """Print lines of the supervisor, without a prefix."""
        self._write(text.rstrip("\n") + "\n")

    def child(self, name: str, line: str) -> None:
        """Print a line of a process, behind its name."""
        prefix = f"{name:{self._width}} | "
        if self.colour:
            prefix = drawn(Text(prefix, style=self._names.get(name, "")))
        self._write(f"{prefix}{line}\n")

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except UnicodeEncodeError:
            self._write(text.encode("ascii", "backslashreplace").decode())
        except (OSError, ValueError):
            pass


def drawn(what: Table | Text) -> str:
    """Render for a terminal, without a line end at the end; under NO_COLOR without any style."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=WIDE, highlight=False)
    if console.no_color:
        # It would leave out colours alone, and keep bold and dim.
        console = Console(file=out, width=WIDE, highlight=False)
    console.print(what, end="")
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def aligned(rows: Sequence[Sequence[str]], indent: str = "  ") -> str:
    """Rows as plain text in aligned columns. The last cell of a row doesn't count for the width of its column."""
    widths = [0] * max(map(len, rows), default=0)
    for row in rows:
        for place, cell in enumerate(row[:-1]):
            widths[place] = max(widths[place], len(cell))
    lines = ("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows)
    return "\n".join(indent + line for line in lines)
