"""Which differences two runs of the trade-off name alike."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from framehold_loadtest.report import __main__ as program
from framehold_loadtest.report.agreement import agreement, confirmed, named
from framehold_loadtest.report.data import Cell, Measured, Missing, Tradeoff

pytestmark = pytest.mark.load

RECORDED = Path(__file__).parents[1] / "recorded" / "tradeoff.json"


def run(**rates: float) -> Tradeoff:
    """Options by their calls per second, each in three turns that differ by one percent. An option of 300 and more
    repeats effects."""
    cells = [
        Cell(option=option, condition="steady", metrics={
            "calls_per_second": Measured(value=rate, unit="1/s", turns=[rate * 0.99, rate, rate * 1.01]),
            "repeated_share": Measured(value=float(rate >= 300), unit="%")})
        for option, rate in rates.items()
    ]  # fmt: skip
    return Tradeoff(machine={}, commit="c", started="s", command="x", options=list(rates), conditions=["steady"],
                    cells=cells)  # fmt: skip


def test_a_difference_counts_as_agreed_only_where_both_runs_name_it_alike() -> None:
    """A is better than E in both; F and G change places; H is told from A in one run alone."""
    found = agreement(run(A=300, E=200, F=100, G=90, H=400), run(A=300, E=200, F=80, G=90, H=301))
    assert "calls per second, steady: A is better than E" in set(map(str, found.alike))
    assert set(map(str, found.opposite)) == {"calls per second, steady: F is better than G"}
    assert "calls per second, steady: H is better than A" in set(map(str, found.alone))
    assert not found.whole


def test_a_confirmed_run_names_what_both_runs_name_and_nothing_else() -> None:
    """H and A are told apart by the first run alone, F and G change places, and A repeats effects in one run alone."""
    one, two = run(A=301, E=200, F=100, G=90, H=400), run(A=299, E=200, F=80, G=90, H=301)
    alike = {str(found) for found in agreement(one, two).alike}
    assert {
        "calls per second, steady: A is better than E",
        "share with a repeated effect, steady: E is better than H",
    } < alike
    assert set(map(str, named(confirmed(two, one)))) == alike
    assert set(map(str, named(confirmed(one, two)))) == alike
    assert "the run of s at commit c" in confirmed(one, two).machine.values()


def test_an_option_that_the_earlier_run_could_not_measure_is_told_from_nobody() -> None:
    one, two = run(A=300, E=200), run(A=300, E=200)
    gap = Cell(option="A", condition="steady", metrics={"calls_per_second": Missing(missing="the machine was busy")})
    assert list(named(confirmed(one, two.model_copy(update={"cells": [gap, two.cells[1]]})))) == []
    assert list(named(one)) != []


def test_a_run_of_fewer_options_confirms_nothing() -> None:
    with pytest.raises(ValueError, match="the earlier run did not measure E, so it can't confirm this one"):
        confirmed(run(A=300, E=200), run(A=300))


def test_a_run_agrees_with_itself() -> None:
    recorded = Tradeoff.model_validate_json(RECORDED.read_bytes())
    assert len(list(named(recorded))) > 100
    assert agreement(recorded, recorded).whole


def test_the_program_fails_where_the_runs_do_not_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / "one.json", tmp_path / "two.json"]
    for path, found in zip(paths, (run(A=3, E=2), run(A=2, E=3)), strict=True):
        path.write_text(json.dumps(found.model_dump()))
    monkeypatch.setattr(sys, "argv", ["report", str(paths[0]), "--against", str(paths[1])])
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == 1
    assert "1 are named the other way round\n  calls per second, steady: A is better than E" in capsys.readouterr().out
