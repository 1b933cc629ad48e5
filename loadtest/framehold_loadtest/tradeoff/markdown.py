"""The trade-off on a Markdown page, between its marks, from the figures of one run.

Law: each table but that of the targets is one of the report's own. A value that was not available is a number in
brackets, and its reason is in the list below. Plots are in a folder beside the page, with the name of the page, and the
constants of the calculator with them. The page of the calculator, which stands beside it, is filled as well.
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
from framehold_loadtest.tradeoff import calculator, targets

PROGRAM = "framehold bench tradeoff"
FIRST, PART, SUMS = "overview", "figures", "calculator"
"""What stands before all else, all that was measured, and the part of the calculator's page."""
_FIRST_FIGURE = "overview"
CASES = (
    calculator.Case(users=200, rounds=2, think=5),
    calculator.Case(users=1000, rounds=3, think=30),
    calculator.Case(users=10_000, rounds=3, think=60, state=4096, nodes=6),
)
"""What the page of the calculator shows."""
_Shown = list[tuple[str, str, str]]


def put(found: Tradeoff, path: Path, report: Path) -> Path:
    """Fill a page, and put the plots of a written report beside it.

    Raises:
        ValueError: a mark is missing; nothing was written.
    """
    plots = path.parent / path.stem
    plots.mkdir(exist_ok=True)
    shown = [figure for figure in figures.titles() if (report / f"{figure[0]}.png").is_file()]
    first = [figure for figure in shown if figure[0] == _FIRST_FIGURE]
    others = [figure for figure in shown if figure[0] != _FIRST_FIGURE]
    known = calculator.constants(found)
    fill(
        path,
        PROGRAM,
        {
            FIRST: "\n\n".join([*_banner(found), *_pictures(first, plots.name)]),
            PART: "\n\n".join([*_head(found), *_tables(found), *_figures(others, plots.name)]),
        },
    )
    for name, *_ in shown:
        shutil.copyfile(report / f"{name}.png", plots / f"{name}.png")
    calculator.write(known, plots)
    if (sums := _sums(path)).is_file():
        fill(sums, PROGRAM, {SUMS: "\n\n".join([*_banner(found), *_cases(known)])})
    return path


def check(path: Path) -> None:
    """See that a page can be filled, and that of the calculator beside it if there is one.

    Raises:
        OSError: it can't be read.
        ValueError: it lacks a mark.
    """
    written(path.read_text(encoding="utf-8"), PROGRAM, {FIRST: "", PART: ""})
    if (sums := _sums(path)).is_file():
        written(sums.read_text(encoding="utf-8"), PROGRAM, {SUMS: ""})


def _sums(path: Path) -> Path:
    return path.with_stem(f"{path.stem}-calculator")


def _banner(found: Tradeoff) -> Iterator[str]:
    """What stands above all else if the machine was busy."""
    if found.busy:
        lines = "\n".join(f"> - {why}" for why in found.busy)
        yield f"> **NOT MEASURED: the machine was busy.** Other programs had the cores in these cells.\n>\n{lines}"


def _cases(known: calculator.Constants) -> Iterator[str]:
    for case in CASES:
        yield calculator.table(case, known).markdown()


def _head(found: Tradeoff) -> Iterator[str]:
    yield markdown(("", ""), [(name, _cell(fact)) for name, fact in facts(found)])


def _tables(found: Tradeoff) -> Iterator[str]:
    yield f"### {targets.TITLE}"
    yield targets.standing(found).markdown()
    # The tables of the faults are in the report alone: what they come to is in the first two.
    undisturbed, modes = tradeoff_tables.condition(found, found.conditions[0]), tradeoff_tables.modes(found)
    tables = (tradeoff_tables.harms(found), tradeoff_tables.standings(found), undisturbed, *([modes] if modes else []))
    for table in tables:
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


def _pictures(shown: _Shown, folder: str) -> Iterator[str]:
    for name, title, caption in shown:
        yield f"![{title}]({folder}/{name}.png)\n\n{caption}"


def _figures(shown: _Shown, folder: str) -> Iterator[str]:
    for name, title, caption in shown:
        yield f"### {title}\n\n{caption}\n\n![{title}]({folder}/{name}.png)"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
