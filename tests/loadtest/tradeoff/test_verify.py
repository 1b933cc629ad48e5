"""The calculator beside fleets: what counts as the same figure, and when the program fails."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from framehold_loadtest.report import data
from framehold_loadtest.report.data import Measured, Missing
from framehold_loadtest.tradeoff import calculator, verify
from framehold_loadtest.tradeoff.calculator import Case, cost
from framehold_loadtest.tradeoff.series import VALUES
from tests.loadtest.tradeoff.test_calculator import OPTION, RECORDED

CASE = Case(users=60, rounds=3, think=1, state=1024, nodes=3)


def measured(factor: float = 1.0) -> dict[str, Measured | Missing]:
    """A fleet whose calls cost so many times what was calculated."""
    of = cost(CASE, OPTION)
    return {
        "cpu_us_node": Measured(value=of.cores / of.calls * 1e6 * factor, unit="us"),
        "store_ops": Measured(value=of.operations / of.calls, unit="operations"),
        "wire_bytes_round_1": Measured(value=of.sent / of.calls, unit="bytes"),
        "bytes_per_parked_call_node": Measured(value=of.memory / of.parked, unit="bytes"),
    }


@pytest.mark.parametrize(("factor", "wrong"), [(1.0, []), (1.15, []), (1.3, ["cores"]), (0.7, ["cores"])])
def test_a_figure_holds_within_a_fifth_of_what_was_measured(factor: float, wrong: list[str]) -> None:
    expected = cost(CASE, OPTION)
    found = verify.figures(CASE, "H-hold", OPTION, measured(factor), expected.calls, expected.parked, "")
    assert [one.name for one in found if not one.holds] == wrong
    assert len(found) == 6


def test_a_busy_machine_verifies_nothing() -> None:
    found = verify.figures(CASE, "H-hold", OPTION, measured(), 1.0, 60.0, "others had 1.9 cores")
    assert not any(one.holds for one in found)
    assert "NOT MEASURED: others had 1.9 cores" in verify.table(found).text()


def test_a_figure_that_was_not_measured_does_not_hold() -> None:
    expected = cost(CASE, OPTION)
    gone = measured() | {"bytes_per_parked_call_node": Missing(missing="no call came to its first question")}
    found = verify.figures(CASE, "H-hold", OPTION, gone, expected.calls, expected.parked, "")
    assert [one.name for one in found if not one.holds] == ["memory, bytes"]


def test_no_case_is_a_point_that_was_measured() -> None:
    """Else the constants would be compared with themselves."""
    for case in verify.CASES:
        new = [
            case.rounds not in VALUES["rounds"],
            case.state not in VALUES["state"],
            case.think not in VALUES["think time"],
        ]
        assert sum(new) > 1, case


@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (1.5, 1)])
def test_the_program_fails_where_a_figure_is_off(
    factor: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = data.read(RECORDED)
    assert isinstance(run, data.Tradeoff)
    file = calculator.write(calculator.constants(run), tmp_path)
    figure = verify.Figure(CASE, "E", "cores", 1.0, 1.0 * factor)
    monkeypatch.setattr(verify, "served", lambda case, option, of, folder: [replace(figure, option=option.name)])
    monkeypatch.setattr(sys, "argv", ["verify", str(file)])
    assert verify.main() == code
    assert ("DIFFERS" in capsys.readouterr().out) == bool(code)
