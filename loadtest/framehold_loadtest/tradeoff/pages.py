"""The trade-off on Markdown pages, from the figures of one run: the report of the run, and pages between marks.

Law: where a page has the calculator's loads, the constants that they are calculated from are in a folder beside it,
with its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from framehold_loadtest.report import tradeoff_tables
from framehold_loadtest.report.data import Tradeoff, facts
from framehold_loadtest.table import fill, markdown, names, written
from framehold_loadtest.tradeoff import calculator, targets

PROGRAM = "framehold bench tradeoff"
PAGE, DATA = "report.md", "report.json"
TARGETS, HARMS, PART, SUMS = PARTS = ("targets", "harms", "figures", "calculator")
"""H-hold's targets, who harms, all else that was measured; the loads of the calculator."""
CASES = (
    calculator.Case(users=200, rounds=2, think=5),
    calculator.Case(users=1000, rounds=3, think=30),
    calculator.Case(users=10_000, rounds=3, think=60, state=4096, nodes=6),
)
"""The loads that the calculator shows."""


def write(found: Tradeoff, folder: Path) -> Path:
    """Write the report of a run into its folder: report.json, the page, and the constants; the page's path."""
    (folder / DATA).write_text(found.model_dump_json() + "\n", encoding="utf-8")
    known = calculator.constants(found)
    calculator.write(known, folder)
    parts = _parts(found, known)
    others = [tradeoff_tables.condition(found, name).markdown(heading=True) for name in found.conditions[1:]]
    page = folder / PAGE
    shown = ["# The trade-off", *(parts[name] for name in (TARGETS, HARMS, PART)), *others, parts[SUMS], ""]
    page.write_text("\n\n".join(shown), encoding="utf-8")
    return page


def put(found: Tradeoff, pages: Sequence[Path]) -> None:
    """Fill pages.

    Raises:
        ValueError: one can't be filled; nothing was written.
    """
    known = calculator.constants(found)
    fill(pages, PROGRAM, _parts(found, known))
    for page in pages:
        if SUMS in names(page.read_text(encoding="utf-8"), PROGRAM):
            beside = page.parent / page.stem
            beside.mkdir(exist_ok=True)
            calculator.write(known, beside)


def check(page: Path) -> None:
    """See that a page can be filled.

    Raises:
        OSError: it can't be read.
        ValueError: it has no mark, or one that nothing fills.
    """
    written(page.read_text(encoding="utf-8"), PROGRAM, dict.fromkeys(PARTS, ""))


def _parts(found: Tradeoff, known: calculator.Constants) -> dict[str, str]:
    """What goes between the marks of pages."""
    head = markdown(("", ""), [(name, fact.replace("|", "\\|")) for name, fact in facts(found)])
    steady = tradeoff_tables.condition(found, found.conditions[0])
    parts: dict[str, Iterable[str]] = {
        TARGETS: [f"### {targets.TITLE}", targets.standing(found).markdown()],
        HARMS: [tradeoff_tables.harms(found).markdown(heading=True)],
        # The tables of the faults are in the report alone: what they come to is in that of the harms.
        PART: [
            head,
            steady.markdown(heading=True),
            tradeoff_tables.READING,
            tradeoff_tables.faults(found).markdown(heading=True),
        ],
        SUMS: [*(calculator.table(case, known).markdown() for case in CASES)],
    }
    return {name: "\n\n".join(part) for name, part in parts.items()}
