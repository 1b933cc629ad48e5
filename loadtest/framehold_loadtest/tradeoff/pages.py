"""The trade-off on Markdown pages, between their marks, from the figures of one run.

Law: each table but that of the targets is one of the report's own. The plots that a page links are in a folder beside
it, with its name. Where a page has the calculator's loads, the constants that they are calculated from are there too.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from framehold_loadtest.report import figures, tradeoff_tables
from framehold_loadtest.report.data import Tradeoff, facts
from framehold_loadtest.table import markdown, names, written
from framehold_loadtest.tradeoff import calculator, targets

PROGRAM = "framehold bench tradeoff"
FIRST, TARGETS, HARMS, PART, SUMS = PARTS = ("overview", "targets", "harms", "figures", "calculator")
"""The first picture, H-hold's targets, who harms, all else that was measured; the loads of the calculator."""
CASES = (
    calculator.Case(users=200, rounds=2, think=5),
    calculator.Case(users=1000, rounds=3, think=30),
    calculator.Case(users=10_000, rounds=3, think=60, state=4096, nodes=6),
)
"""The loads that the calculator shows."""


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
            if f"({beside.name}/{name}.png)" in text:
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


def _parts(
    found: Tradeoff, known: calculator.Constants, shown: list[tuple[str, str, str]], folder: str
) -> dict[str, str]:
    """What goes between the marks of a page whose plots are in a folder of this name."""
    pictures = {name: (title, caption, f"![{title}]({folder}/{name}.png)") for name, title, caption in shown}
    _, caption, picture = pictures.pop("overview", ("", "", ""))
    banner = list(_banner(found))
    head = markdown(("", ""), [(name, fact.replace("|", "\\|")) for name, fact in facts(found)])
    others = (f"### {title}\n\n{caption}\n\n{picture}" for title, caption, picture in pictures.values())
    parts: dict[str, Iterable[str]] = {
        FIRST: [*banner, *([f"{picture}\n\n{caption}"] if picture else [])],
        TARGETS: [f"### {targets.TITLE}", targets.standing(found).markdown()],
        HARMS: [tradeoff_tables.harms(found).markdown(heading=True)],
        PART: [*banner, head, *_tables(found), *others],
        SUMS: [*banner, *(calculator.table(case, known).markdown() for case in CASES)],
    }
    return {name: "\n\n".join(part) for name, part in parts.items()}


def _banner(found: Tradeoff) -> Iterator[str]:
    """What stands above all else if the machine was busy."""
    if found.busy:
        lines = "\n".join(f"> - {why}" for why in found.busy)
        yield f"> **NOT MEASURED: the machine was busy.** Other programs had the cores in these cells.\n>\n{lines}"


def _tables(found: Tradeoff) -> Iterator[str]:
    # The tables of the faults are in the report alone: what they come to is in that of the harms.
    for table in (tradeoff_tables.standings(found), tradeoff_tables.condition(found, found.conditions[0])):
        yield table.markdown(heading=True)
