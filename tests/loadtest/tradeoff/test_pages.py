"""The pages of the trade-off: filled between their marks, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from framehold_loadtest.report import data
from framehold_loadtest.table import END, begin, names
from framehold_loadtest.tradeoff import calculator
from framehold_loadtest.tradeoff.pages import (
    CASES,
    HARMS,
    PART,
    PARTS,
    PROGRAM,
    SUMS,
    TARGETS,
    check,
    put,
    write,
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


@pytest.mark.parametrize("text", ["# Mine\n", f"{begin(PROGRAM, 'older')}\n{END}\n", begin(PROGRAM, HARMS)])
def test_a_page_that_cannot_be_filled_is_refused_before_anything_is_measured(tmp_path: Path, text: str) -> None:
    path = tmp_path / "page.md"
    path.write_text(text)
    with pytest.raises(ValueError, match="nothing was written"):
        check(path)


def test_tables_and_reasons_are_the_reports(tmp_path: Path) -> None:
    """A table of the undisturbed condition, and the reason of what is missing. Each page has what its marks name."""
    found = data.Tradeoff.model_validate_json(RECORDED.read_bytes())
    overview = marked(tmp_path / "overview.md", TARGETS, HARMS)
    full = marked(tmp_path / "tradeoff.md", PART, SUMS)
    put(found, [overview, full])
    first, text = overview.read_text(), full.read_text()
    for page in (first, text):
        assert page.startswith("# Mine\n") and page.endswith(f"{END}\nmine, too\n")
    assert found.commit in text and found.command in text
    steady, *faults = (f"### {condition.capitalize()}" in text for condition in found.conditions)
    assert steady and faults and not any(faults)
    assert "### H-hold beside its targets" in first and "### Who loses a call" in first
    assert "not available: a 2025-era client carries no token" in text
    assert "### What each condition costs" in text
    assert [path.name for path in tmp_path.rglob("*.json")] == [calculator.FILE]
    assert "**1000 users, 3 rounds, 30 s of thought" in text and "**200 users" in text


def test_the_report_of_a_run_has_a_table_for_each_condition(tmp_path: Path) -> None:
    """Each value or its reason."""
    found = data.Tradeoff.model_validate_json(RECORDED.read_bytes())
    text = write(found.model_copy(update={"cells": found.cells[1:]}), tmp_path).read_text()
    assert all(f"### {condition.capitalize()}" in text for condition in found.conditions)
    assert "not available: the run did not report it" in text
    assert data.Tradeoff.model_validate_json((tmp_path / "report.json").read_bytes()).options == found.options


def test_of_pages_of_which_one_cannot_be_filled_none_is_written(tmp_path: Path) -> None:
    found = data.Tradeoff.model_validate_json(RECORDED.read_bytes())
    good, bad = marked(tmp_path / "good.md", TARGETS), marked(tmp_path / "bad.md", "older")
    before = good.read_text()
    with pytest.raises(ValueError, match="nothing was written"):
        put(found, [good, bad])
    assert good.read_text() == before


def test_the_pages_of_the_repository_have_all_parts() -> None:
    there = []
    for path in PAGES:
        check(path)
        there += names(path.read_text(encoding="utf-8"), PROGRAM)
    assert sorted(there) == sorted(PARTS)


def test_the_loads_on_the_page_are_calculated_from_the_constants_that_are_kept() -> None:
    """So both are of the same run."""
    text = PAGES[1].read_text(encoding="utf-8")
    shown = text.partition(begin(PROGRAM, SUMS))[2].partition(END)[0]
    known = calculator.read(calculator.KEPT)
    assert shown.strip() == "\n\n".join(calculator.table(case, known).markdown() for case in CASES)
