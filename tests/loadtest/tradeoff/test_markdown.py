"""The page of the trade-off: filled between its marks, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from framehold_loadtest.marked_page import END, begin
from framehold_loadtest.report import data
from framehold_loadtest.tradeoff.markdown import FIRST, PART, PROGRAM, SUMS, check, put

pytestmark = pytest.mark.load

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "tests" / "loadtest" / "recorded" / "tradeoff.json"


def test_a_page_without_its_marks_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("# Mine\n")
    with pytest.raises(ValueError, match="nothing was written"):
        check(path)


def test_tables_reasons_and_plots_are_the_reports(tmp_path: Path) -> None:
    """A table of the undisturbed condition, the reason of what is missing, and each plot that is linked."""
    found = data.read(RECORDED)
    assert isinstance(found, data.Tradeoff)
    report = tmp_path / "report"
    report.mkdir()
    for name in ("overview.png", "latency.png", "latency-dark.png", "faults.png"):
        (report / name).write_bytes(b"drawn")
    path = tmp_path / "tradeoff.md"
    path.write_text(f"# Mine\n{begin(PROGRAM, FIRST)}\n{END}\n{begin(PROGRAM, PART)}\n{END}\nmine, too\n")
    sums = tmp_path / "tradeoff-calculator.md"
    sums.write_text(f"{begin(PROGRAM, SUMS)}\n{END}\n")
    put(found, path, report)
    text = path.read_text()
    assert text.startswith("# Mine\n") and text.endswith(f"{END}\nmine, too\n")
    assert found.commit in text and found.command in text
    first, *faults = (f"### {condition.capitalize()}" in text for condition in found.conditions)
    assert first and faults and not any(faults)
    assert "### H-hold beside its targets" in text and "two modes" not in text
    assert "not available: a 2025-era client carries no token" in text
    linked = {line.partition("](")[2].rstrip(")") for line in text.splitlines() if line.startswith("![")}
    beside = {f"tradeoff/{one.name}" for one in (tmp_path / "tradeoff").iterdir()}
    assert len(linked) == 3 and linked == beside - {"tradeoff/constants.json"} < beside
    assert text.index("overview.png") < text.index("commit"), "the picture stands before all figures"
    assert "**1000 users, 3 rounds, 30 s of thought" in sums.read_text()


def test_the_page_in_the_docs_has_its_marks_and_its_plots() -> None:
    path = ROOT / "docs" / "tradeoff.md"
    check(path)
    text = path.read_text(encoding="utf-8")
    linked = [line.partition("](")[2].rstrip(")") for line in text.splitlines() if line.startswith("![")]
    assert linked and all((ROOT / "docs" / name).is_file() for name in linked)
