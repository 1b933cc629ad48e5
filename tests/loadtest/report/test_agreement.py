"""Which differences two runs of the trade-off name alike."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from framehold_loadtest.report import __main__ as program
from framehold_loadtest.report.agreement import agreement, named
from framehold_loadtest.report.data import Cell, Measured, Tradeoff

RECORDED = Path(__file__).parents[1] / "recorded" / "tradeoff.json"


def run(**rates: float) -> Tradeoff:
    """Options by their calls per second, each in three turns that differ by one percent."""
    cells = [
        Cell(option=option, condition="steady", metrics={
            "calls_per_second": Measured(value=rate, unit="1/s", turns=[rate * 0.99, rate, rate * 1.01])})
        for option, rate in rates.items()
    ]  # fmt: skip
    return Tradeoff(machine={}, commit="c", started="s", command="x", options=list(rates), conditions=["steady"],
                    cells=cells)  # fmt: skip


def test_a_difference_counts_as_agreed_only_where_both_runs_name_it_alike() -> None:
    """A is better than E in both; F and G change places; H is told from A in one run alone."""
    found = agreement(run(A=300, E=200, F=100, G=90, H=400), run(A=300, E=200, F=80, G=90, H=301))
    assert "calls per second, steady: A is better than E" in set(map(str, found.alike))
    assert set(map(str, found.opposite)) == {"calls per second, steady: F is better than G"}
    assert set(map(str, found.alone)) == {"calls per second, steady: H is better than A"}
    assert not found.whole


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
