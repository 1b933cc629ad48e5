"""The trade-off on a Markdown page, between its marks, from the figures of one run.

Law: each table is one of the report's own. A value that was not available is a number in brackets, and its reason is in
the list below. Plots are in a folder beside the page, with the name of the page.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from framehold_loadtest.marked_page import fill, written
from framehold_loadtest.marked_page import table as markdown
from framehold_loadtest.report import figures, tradeoff_tables
from framehold_loadtest.report.data import Tradeoff
from framehold_loadtest.report.table import Entry, Table, facts

PROGRAM, PART = "framehold bench tradeoff", "figures"


def put(found: Tradeoff, path: Path, report: Path) -> Path:
    """Fill a page, and put the plots of a written report beside it.

    Raises:
        ValueError: a mark is missing; nothing was written.
    """
    plots = path.parent / path.stem
    plots.mkdir(exist_ok=True)
    shown = [figure for figure in figures.titles() if (report / f"{figure[0]}.png").is_file()]
    for name, *_ in shown:
        shutil.copyfile(report / f"{name}.png", plots / f"{name}.png")
    text = "\n\n".join([*_head(found), *_tables(found), *_figures(shown, plots.name)])
    fill(path, PROGRAM, {PART: text})
    return path


def check(path: Path) -> None:
    """See that a page can be filled.

    Raises:
        OSError: it can't be read.
        ValueError: it lacks a mark.
    """
    written(path.read_text(encoding="utf-8"), PROGRAM, {PART: ""})


def _head(found: Tradeoff) -> Iterator[str]:
    yield markdown(("", ""), [(name, _cell(fact)) for name, fact in facts(found)])


def _tables(found: Tradeoff) -> Iterator[str]:
    conditions = [tradeoff_tables.condition(found, name) for name in found.conditions]
    for table in (tradeoff_tables.harms(found), tradeoff_tables.standings(found), *conditions):
        yield f"### {table.title[0].upper()}{table.title[1:]}"
        yield from _table(table)


def _table(table: Table) -> Iterator[str]:
    reasons: dict[str, int] = {}
    rows = [[row.head, *(_entry(entry, reasons) for entry in row.entries)] for row in table.rows]
    yield markdown(table.columns, [[_cell(text) for text in row] for row in rows])
    if table.note:
        yield table.note
    if reasons:
        yield "\n".join(f"- [{number}] not available: {why}" for why, number in reasons.items())


def _entry(entry: Entry, reasons: dict[str, int]) -> str:
    if entry.kind == "missing" and entry.small:
        return f"[{reasons.setdefault(entry.small, len(reasons) + 1)}]"
    text = f"**{entry.text}**" if entry.kind == "best" else entry.text
    return f"{text} ({entry.small})" if entry.small else text


def _figures(shown: list[tuple[str, str, str]], folder: str) -> Iterator[str]:
    for name, title, caption in shown:
        yield f"### {title}\n\n{caption}\n\n![{title}]({folder}/{name}.png)"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
