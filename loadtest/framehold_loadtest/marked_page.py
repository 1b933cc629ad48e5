"""Measured tables, written between marks of pages whose other text is written by hand.

Law: all pages are written or none, and a part holds the figures of one run. A mark names its program, so several
programs can fill one page. A page has the parts whose marks are on it, so one run can fill several pages.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

END = "<!-- end -->"


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


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def add_pages(parser: argparse.ArgumentParser) -> None:
    """The option `page` of a program: the pages that it fills."""
    parser.add_argument(
        "--page", type=Path, metavar="PATH", action="append", default=[],
        help="put the tables between the marks of this page (repeatable): each page gets those that it has marks for",
    )  # fmt: skip


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of a program that measures, keeps its raw figures and fills pages.

    They are its own options (`only` among them), and `json`, `page` and `load`: the file that it takes figures from
    instead of measuring.
    """
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every raw figure to PATH")
    add_pages(parser)
    parser.add_argument(
        "--from", type=Path, metavar="PATH", dest="load", help="run nothing: take the figures that --json wrote there"
    )
    options = parser.parse_args()
    if options.page and options.only and not options.load:
        parser.error("--page shows a whole run; leave --only out")
    for page in options.page:
        if not page.is_file():
            parser.error(f"there is no page {page}")
    return options
