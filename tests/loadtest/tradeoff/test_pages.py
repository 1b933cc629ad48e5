"""The pages of the trade-off: filled between their marks, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from framehold_loadtest.report import data
from framehold_loadtest.table import END, begin, names
from framehold_loadtest.tradeoff import calculator
from framehold_loadtest.tradeoff.pages import (
    CASES,
    FIRST,
    HARMS,
    PART,
    PARTS,
    PROGRAM,
    SUMS,
    TARGETS,
    check,
    put,
)

pytestmark = pytest.mark.load

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / "docs" / "measured.md", ROOT / "loadtest" / "reports" / "tradeoff.md")
RECORDED = ROOT / "tests" / "loadtest" / "recorded" / "tradeoff.json"


def marked(path: Path, *parts: str) -> Path:
    """A page that can be filled."""
    marks = "".join(f"{begin(PROGRAM, part)}\n{END}\n" for part in parts)
    path.write_text(f"# Mine\n{marks}mine, too\n")
    return path


def linked(text: str) -> list[str]:
    return [line.partition("](")[2].rstrip(")") for line in text.splitlines() if line.startswith("![")]


@pytest.mark.parametrize("text", ["# Mine\n", f"{begin(PROGRAM, 'older')}\n{END}\n", begin(PROGRAM, FIRST)])
def test_a_page_that_cannot_be_filled_is_refused_before_anything_is_measured(tmp_path: Path, text: str) -> None:
    path = tmp_path / "page.md"
    path.write_text(text)
    with pytest.raises(ValueError, match="nothing was written"):
        check(path)


def test_tables_reasons_and_plots_are_the_reports(tmp_path: Path) -> None:
    """A table of the undisturbed condition, the reason of what is missing, and each plot that is linked. Each page has
    what its marks name."""
    found = data.read(RECORDED)
    assert isinstance(found, data.Tradeoff)
    report = tmp_path / "report"
    report.mkdir()
    for name in ("overview.png", "series-load.png", "faults.png"):
        (report / name).write_bytes(b"drawn")
    overview = marked(tmp_path / "overview.md", FIRST, TARGETS, HARMS)
    full = marked(tmp_path / "tradeoff.md", PART, SUMS)
    put(found, [overview, full], report)
    first, text = overview.read_text(), full.read_text()
    for page in (first, text):
        assert page.startswith("# Mine\n") and page.endswith(f"{END}\nmine, too\n")
    assert found.commit in text and found.command in text
    steady, *faults = (f"### {condition.capitalize()}" in text for condition in found.conditions)
    assert steady and faults and not any(faults)
    assert "### What speaks for and against" in text
    assert "### H-hold beside its targets" in first and "### Who loses a call" in first
    assert "not available: a 2025-era client carries no token" in text
    for path, page, plots in ((overview, first, {"overview"}), (full, text, {"series-load", "faults"})):
        beside = path.parent / path.stem
        assert set(linked(page)) == {f"{beside.name}/{name}.png" for name in plots}
        constants = {calculator.FILE} if path == full else set()
        assert {one.name for one in beside.iterdir()} == {f"{name}.png" for name in plots} | constants
    assert "**1000 users, 3 rounds, 30 s of thought" in text and "**200 users" in text


def test_of_pages_of_which_one_cannot_be_filled_none_is_written(tmp_path: Path) -> None:
    found = data.read(RECORDED)
    assert isinstance(found, data.Tradeoff)
    good, bad = marked(tmp_path / "good.md", TARGETS), marked(tmp_path / "bad.md", "older")
    before = good.read_text()
    with pytest.raises(ValueError, match="nothing was written"):
        put(found, [good, bad], tmp_path)
    assert good.read_text() == before


def test_the_pages_of_the_repository_have_all_parts_and_their_plots() -> None:
    there = []
    for path in PAGES:
        check(path)
        text = path.read_text(encoding="utf-8")
        there += names(text, PROGRAM)
        plots = linked(text)
        assert plots and all((path.parent / name).is_file() for name in plots)
    assert sorted(there) == sorted(PARTS)


def test_the_loads_on_the_page_are_calculated_from_the_constants_that_are_kept() -> None:
    """So both are of the same run."""
    text = PAGES[1].read_text(encoding="utf-8")
    shown = text.partition(begin(PROGRAM, SUMS))[2].partition(END)[0]
    known = calculator.read(calculator.KEPT)
    assert shown.strip() == "\n\n".join(calculator.table(case, known).markdown() for case in CASES)
