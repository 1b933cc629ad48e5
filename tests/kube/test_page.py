"""The page of the documentation that a run of drills writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fleet.ledger import Ledger
from tests.kube.drills.drills import DRILLS, describe
from tests.kube.drills.judged import Facts, Wanted, judge, unfinished
from tests.kube.drills.page import page

pytestmark = pytest.mark.chart

DRILL = "pod deleted"


def facts() -> Facts:
    """The figures of a drill without users, which has failed."""
    return judge(DRILL, 12.0, 0, [], [], Ledger(Path("none")), Wanted())


def test_each_drill_is_a_row_with_its_description() -> None:
    found = page({"Kubernetes": "v1.2.3"}, {DRILL: "Deletes a pod."}, [replace(facts(), faults=[], doubted=17)])
    assert "| Kubernetes | v1.2.3 |" in found
    assert f"- **{DRILL}**: Deletes a pod." in found
    assert f"| {DRILL} | 0 / 0 | 0.0 | 0 / 0 / 0 |" in found
    assert "| Effects that ran twice | Effects in doubt | Result |" in found
    assert "| 0 | 17 | passed |" in found
    assert "failed" not in found


def test_a_drill_that_did_not_pass_says_why() -> None:
    found = page({}, {DRILL: "Deletes a pod."}, [facts()])
    assert "**failed**" in found
    assert f"- **{DRILL}**: no call was parked." in found


def test_a_drill_that_stopped_has_failed_and_says_where() -> None:
    found = page({}, {DRILL: "Deletes a pod."}, [unfinished(DRILL, "the drill stopped: no pod")])
    assert "**failed**" in found
    assert f"- **{DRILL}**: the drill stopped: no pod." in found


def test_each_drill_has_a_description() -> None:
    assert all(describe(name).endswith(".") for name in DRILLS)
