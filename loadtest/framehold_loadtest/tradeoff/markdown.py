"""The trade-off on Markdown pages, between their marks, from the figures of one run.

Law: each table but that of the targets is one of the report's own. A value that was not available is a number in
brackets, and its reason is in the list below. The plots that a page links are in a folder beside it, with its name.
Where a page has the calculator's loads, the constants that they are calculated from are there too.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from framehold_loadtest.marked_page import names, written
from framehold_loadtest.marked_page import table as markdown
from framehold_loadtest.report import figures, tradeoff_tables
from framehold_loadtest.report.data import Tradeoff
from framehold_loadtest.report.table import Entry, Table, facts
from framehold_loadtest.tradeoff import calculator, targets

PROGRAM = "framehold bench tradeoff"
FIRST, TARGETS, HARMS, PART, EXAMPLE, SUMS = PARTS = (
    "overview", "targets", "harms", "figures", "example", "calculator",
)  # fmt: skip
"""The first picture, H-hold's targets, who harms, all else that was measured; one load of the calculator, and all."""
_FIRST_FIGURE = "overview"
TYPICAL = calculator.Case(users=1000, rounds=3, think=30)
CASES = (
    calculator.Case(users=200, rounds=2, think=5),
    TYPICAL,
    calculator.Case(users=10_000, rounds=3, think=60, state=4096, nodes=6),
)
"""The loads that the calculator shows."""
_Shown = list[tuple[str, str, str]]


def put(found: Tradeoff, pages: Iterable[Path], report: Path) -> None:
    """Fill pages, and put the plots of a written report beside those that link them.

    Raises:
        ValueError: one can't be filled; nothing was written.
    """
    shown = [figure for figure in figures.titles() if (report / f"{figure[0]}.png").is_file()]
    known = calculator.constants(found)
    texts = [
        (page, written(page.read_text(encoding="utf-8"), PROGRAM, _parts(found, known, shown, page.stem)))
        for page in pages
    ]
    for page, text in texts:
        page.write_text(text, encoding="utf-8")
        beside = page.parent / page.stem
        beside.mkdir(exist_ok=True)
        for name, *_ in shown:
            if _picture(name, beside.name) in text:
                shutil.copyfile(report / f"{name}.png", beside / f"{name}.png")
        if SUMS in names(text, PROGRAM):
            calculator.write(known, beside)


def check(page: Path) -> None:
    """See that a page can be filled.

    Raises:
        OSError: it can't be read.
        ValueError: it has no mark, or one that nothing fills.
    """
    written(page.read_text(encoding="utf-8"), PROGRAM, dict.fromkeys(PARTS, ""))


def _parts(found: Tradeoff, known: calculator.Constants, shown: _Shown, folder: str) -> dict[str, str]:
    """What goes between the marks of a page whose plots are in a folder of this name."""
    first = [figure for figure in shown if figure[0] == _FIRST_FIGURE]
    others = [figure for figure in shown if figure[0] != _FIRST_FIGURE]
    parts: dict[str, Iterable[str]] = {
        FIRST: [*_banner(found), *_pictures(first, folder)],
        TARGETS: [f"### {targets.TITLE}", targets.standing(found).markdown()],
        HARMS: _titled(tradeoff_tables.harms(found)),
        PART: [*_head(found), *_tables(found), *_figures(others, folder)],
        EXAMPLE: [*_banner(found), *_cases([TYPICAL], known)],
        SUMS: [*_banner(found), *_cases(CASES, known)],
    }
    return {name: "\n\n".join(part) for name, part in parts.items()}


def _banner(found: Tradeoff) -> Iterator[str]:
    """What stands above all else if the machine was busy."""
    if found.busy:
        lines = "\n".join(f"> - {why}" for why in found.busy)
        yield f"> **NOT MEASURED: the machine was busy.** Other programs had the cores in these cells.\n>\n{lines}"


def _cases(cases: Iterable[calculator.Case], known: calculator.Constants) -> Iterator[str]:
    for case in cases:
        yield calculator.table(case, known).markdown()


def _head(found: Tradeoff) -> Iterator[str]:
    yield markdown(("", ""), [(name, _cell(fact)) for name, fact in facts(found)])


def _tables(found: Tradeoff) -> Iterator[str]:
    # The tables of the faults are in the report alone: what they come to is in that of the harms.
    undisturbed, modes = tradeoff_tables.condition(found, found.conditions[0]), tradeoff_tables.modes(found)
    for table in (tradeoff_tables.standings(found), undisturbed, *([modes] if modes else [])):
        yield from _titled(table)


def _titled(table: Table) -> Iterator[str]:
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
        yield f"![{title}]{_picture(name, folder)}\n\n{caption}"


def _figures(shown: _Shown, folder: str) -> Iterator[str]:
    for name, title, caption in shown:
        yield f"### {title}\n\n{caption}\n\n![{title}]{_picture(name, folder)}"


def _picture(name: str, folder: str) -> str:
    return f"({folder}/{name}.png)"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
