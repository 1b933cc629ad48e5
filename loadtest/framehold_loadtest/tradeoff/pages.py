"""The trade-off on Markdown pages, from the figures of one run: the report of the run, and pages between marks.

Law: the plots that a page links are in a folder beside it, with its name; those of a report are beside it. Where a
page has the calculator's loads, the constants that they are calculated from are there too.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from framehold_loadtest.report import tradeoff_plots, tradeoff_tables
from framehold_loadtest.report.data import Tradeoff, facts
from framehold_loadtest.report.theme import png
from framehold_loadtest.table import markdown, names, written
from framehold_loadtest.tradeoff import calculator, targets

PROGRAM = "framehold bench tradeoff"
PAGE, DATA = "report.md", "report.json"
FIRST, TARGETS, HARMS, PART, EXAMPLE, SUMS = PARTS = (
    "overview", "targets", "harms", "figures", "example", "calculator",
)  # fmt: skip
"""The first picture, H-hold's targets, who harms, all else that was measured; one load of the calculator, and all."""
TYPICAL = calculator.Case(users=1000, rounds=3, think=30)
CASES = (
    calculator.Case(users=200, rounds=2, think=5),
    TYPICAL,
    calculator.Case(users=10_000, rounds=3, think=60, state=4096, nodes=6),
)
"""The loads that the calculator shows."""
OVERVIEW, FAULTS = "overview.png", "faults.png"
_OVERVIEW = (
    "CPU and memory undisturbed, with quartiles. Right: the largest share of calls that a condition harmed.",
    f"![What each option costs and harms]({{}}{OVERVIEW})",
)
_FAULTS = (
    "### What each condition costs",
    "The share of calls lost, and with a repeated effect, of those that could be hit; how long a client waited."
    " The darker a field, the nearer its value to the highest of the grid.",
    f"![What each condition costs]({{}}{FAULTS})",
)


def write(found: Tradeoff, folder: Path) -> Path:
    """Write the report of a run into its folder: report.json, the page, its plots, and the constants; the page's
    path."""
    (folder / DATA).write_text(found.model_dump_json() + "\n", encoding="utf-8")
    (folder / OVERVIEW).write_bytes(png(tradeoff_plots.overview(found)))
    (folder / FAULTS).write_bytes(png(tradeoff_plots.faults(found)))
    known = calculator.constants(found)
    calculator.write(known, folder)
    parts = _parts(found, known, "")
    others = [tradeoff_tables.condition(found, name).markdown(heading=True) for name in found.conditions[1:]]
    page = folder / PAGE
    shown = ["# The trade-off", *(parts[name] for name in (FIRST, TARGETS, HARMS, PART)), *others, parts[SUMS], ""]
    page.write_text("\n\n".join(shown), encoding="utf-8")
    return page


def put(found: Tradeoff, pages: Iterable[Path], report: Path) -> None:
    """Fill pages, and put the plots of a written report beside those that link them.

    Raises:
        ValueError: one can't be filled; nothing was written.
    """
    known = calculator.constants(found)
    texts = [(page, written(page.read_text(encoding="utf-8"), PROGRAM, _parts(found, known, f"{page.stem}/")))
             for page in pages]  # fmt: skip
    for page, text in texts:
        page.write_text(text, encoding="utf-8")
        beside = page.parent / page.stem
        beside.mkdir(exist_ok=True)
        for name in (OVERVIEW, FAULTS):
            if f"({beside.name}/{name})" in text:
                shutil.copyfile(report / name, beside / name)
        if SUMS in names(text, PROGRAM):
            calculator.write(known, beside)


def check(page: Path) -> None:
    """See that a page can be filled.

    Raises:
        OSError: it can't be read.
        ValueError: it has no mark, or one that nothing fills.
    """
    written(page.read_text(encoding="utf-8"), PROGRAM, dict.fromkeys(PARTS, ""))


def _parts(found: Tradeoff, known: calculator.Constants, place: str) -> dict[str, str]:
    """What goes between the marks of a page whose plots are at `place`."""
    banner = list(_banner(found))
    head = markdown(("", ""), [(name, fact.replace("|", "\\|")) for name, fact in facts(found)])
    caption, overview = _OVERVIEW
    steady = tradeoff_tables.condition(found, found.conditions[0])
    parts: dict[str, Iterable[str]] = {
        FIRST: [*banner, overview.format(place), caption],
        TARGETS: [f"### {targets.TITLE}", targets.standing(found).markdown()],
        HARMS: [tradeoff_tables.harms(found).markdown(heading=True)],
        # The tables of the faults are in the report alone: what they come to is in that of the harms.
        PART: [
            *banner,
            head,
            steady.markdown(heading=True),
            tradeoff_tables.READING,
            *(text.format(place) for text in _FAULTS),
        ],
        EXAMPLE: [*banner, calculator.table(TYPICAL, known).markdown()],
        SUMS: [*banner, *(calculator.table(case, known).markdown() for case in CASES)],
    }
    return {name: "\n\n".join(part) for name, part in parts.items()}


def _banner(found: Tradeoff) -> Iterator[str]:
    """What stands above all else if the machine was busy."""
    if found.busy:
        lines = "\n".join(f"> - {why}" for why in found.busy)
        yield f"> **NOT MEASURED: the machine was busy.** Other programs had the cores in these cells.\n>\n{lines}"
