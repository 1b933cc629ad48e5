"""The page of a scenario: rules first, and a plot or a reason."""

from dataclasses import replace
from pathlib import Path

import pytest

from framehold_loadtest.report import data, scenario_page
from framehold_loadtest.report.series import Series

pytestmark = pytest.mark.load

KILLED = data.Scenario.model_validate_json((Path(__file__).parents[1] / "recorded" / "kill.json").read_bytes())


def test_the_page_has_its_tables_and_its_plots_beside_it(tmp_path: Path) -> None:
    text = scenario_page.write(KILLED, tmp_path).read_text()
    assert text.startswith("# kill: passed\n")
    assert text.index("### Rules") < text.index("### Faults") < text.index("![")
    for name in ("load", "resumes", "memory"):
        assert f"({name}.png)" in text and (tmp_path / f"{name}.png").is_file()


def test_a_scenario_that_failed_says_so_first(tmp_path: Path) -> None:
    """In the title, and by the failed rules above those that passed."""
    failed = [*KILLED.verdicts, replace(KILLED.verdicts[0], passed=False)]
    text = scenario_page.write(KILLED.model_copy(update={"verdicts": failed}), tmp_path).read_text()
    assert text.startswith("# kill: FAILED\n") and text.index("| FAILED |") < text.index("| passed |")


def test_a_scenario_without_rules_has_not_passed() -> None:
    """Nothing was asked of it."""
    assert KILLED.passed and not KILLED.model_copy(update={"verdicts": []}).passed


def test_a_plot_that_has_nothing_to_show_says_so(tmp_path: Path) -> None:
    """And keeps its place."""
    bare = {"series": Series([], [], [], []), "faults": [], "resumes": {}}
    text = scenario_page.write(KILLED.model_copy(update=bare), tmp_path).read_text()
    assert text.count("Nothing was sampled.") == 3 and "![" not in text
