"""What a run of drills writes: a report, and the table of docs/kubernetes.md."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fleet.ledger import Ledger
from tests.kube.drills.__main__ import PAGE, REPORT
from tests.kube.drills.drills import DRILLS, describe
from tests.kube.drills.judged import Facts, Wanted, judge, unfinished
from tests.kube.drills.report import BEGIN, END, inserted, report, summary

pytestmark = pytest.mark.chart

DRILL = "pod deleted"


def facts() -> Facts:
    """The figures of a drill without users, which has failed."""
    return judge(DRILL, 12.0, 0, [], [], Ledger(Path("none")), Wanted())


def test_each_drill_is_a_row_with_its_description() -> None:
    found = report({"Kubernetes": "v1.2.3"}, {DRILL: "Deletes a pod."}, [replace(facts(), faults=[], doubted=17)])
    assert "| Kubernetes | v1.2.3 |" in found
    assert f"- **{DRILL}**: Deletes a pod." in found
    assert f"| {DRILL} | 0 / 0 | 0.0 | 0 / 0 / 0 |" in found
    assert "| Effects that ran twice | Effects in doubt | Result |" in found
    assert "| 0 | 17 | passed |" in found
    assert "failed" not in found


@pytest.mark.parametrize("why", ["no call was parked", "the drill stopped: no pod"])
def test_a_drill_that_did_not_pass_or_stopped_says_why(why: str) -> None:
    found = report({}, {DRILL: "Deletes a pod."}, [facts() if "parked" in why else unfinished(DRILL, why)])
    assert "**failed**" in found and f"- **{DRILL}**: {why}." in found


def test_the_table_of_the_page_says_what_was_lost_and_for_how_long_users_waited() -> None:
    calm = replace(facts(), faults=[], parked={"marked": 5, "unmarked": 4}, ended={"marked": 5, "unmarked": 4})
    bad = replace(
        calm, drill="worse", ended={"marked": 3, "unmarked": 2}, reported=2, longest={"marked": 1, "unmarked": 2.25}
    )
    found = summary(
        {"Kubernetes": "v1.2.3", "Date": "2026-01-02"}, [calm, replace(bad, twice=1, faults=["two were lost"])]
    )
    assert found.startswith("Kubernetes v1.2.3, 2026-01-02. 5 marked and 4 unmarked calls were parked in each drill.")
    assert "Marked calls lost: worse: 2. Effects that ran twice: 1." in found
    assert f"| {DRILL} | 0 | 0.0 |\n| worse (**failed**) | 2 | 2.2 |" in found
    assert "Marked calls lost: none. Effects that ran twice: 0." in summary({"Kubernetes": "", "Date": ""}, [calm])


def test_the_table_is_put_between_its_marks() -> None:
    assert inserted(f"a\n{BEGIN}\nold\n{END}\nb\n", "new") == f"a\n{BEGIN}\nnew\n{END}\nb\n"
    with pytest.raises(ValueError, match="the page lacks"):
        inserted("a page without marks", "new")


def test_the_table_of_the_page_is_of_the_same_run_as_the_report() -> None:
    text = REPORT.read_text().partition("## What users saw")[2]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")][2:]
    assert [row[0] for row in rows] == list(DRILLS)
    assert all(describe(name).endswith(".") for name in DRILLS)
    expected = [f"| {row[0]} | {row[3].split(' / ')[1]} | {max(row[2], row[4], key=float)} |" for row in rows]
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    assert [line for line in table.splitlines() if line.startswith("| ")][2:] == expected
    assert all(row[1].split(" / ")[0] == row[1].split(" / ")[1] for row in rows) == (
        "Marked calls lost: none." in table
    )
