"""Measured tables, written between marks of a page whose other text is written by hand.

Law: a page is written whole or not at all, and a part holds the figures of one run. A mark names its program, so
several programs can fill one page.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

END = "<!-- end -->"


def begin(program: str, name: str) -> str:
    """The mark before a part: of a program, as it is started, and by the part's name."""
    return f"<!-- begin: {program}: {name} -->"


def written(text: str, program: str, parts: Mapping[str, str]) -> str:
    """A page with these parts between the program's marks.

    Raises:
        ValueError: a mark is missing; nothing was written.
    """
    for name, part in parts.items():
        start = begin(program, name)
        head, mark, rest = text.partition(start)
        _, end, tail = rest.partition(END)
        if not (mark and end):
            raise ValueError(f"the page lacks {start!r} with {END!r} behind it; nothing was written; put them back")
        text = f"{head}{mark}\n{part}\n{end}{tail}"
    return text


def fill(path: Path, program: str, parts: Mapping[str, str]) -> None:
    """Put the parts into the page of this name.

    Raises:
        OSError: it can't be read or written.
        ValueError: it lacks a mark; nothing was written.
    """
    path.write_text(written(path.read_text(encoding="utf-8"), program, parts), encoding="utf-8")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of a program that measures, keeps its raw figures and fills a page.

    They are its own options (`only` among them), and `json`, `page` and `load`: the file that it takes figures from
    instead of measuring.
    """
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every raw figure to PATH")
    parser.add_argument("--page", type=Path, metavar="PATH", help="put the tables between the marks of this page")
    parser.add_argument(
        "--from", type=Path, metavar="PATH", dest="load", help="run nothing: take the figures that --json wrote there"
    )
    options = parser.parse_args()
    if options.page and options.only and not options.load:
        parser.error("--page shows a whole run; leave --only out")
    if options.page and not options.page.is_file():
        parser.error(f"there is no page {options.page}")
    return options
