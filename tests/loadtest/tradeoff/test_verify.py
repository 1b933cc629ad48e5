"""The calculator beside fleets: what counts as the same figure, and when the program fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from framehold_loadtest.report import data
from framehold_loadtest.report.data import Measured, Missing
from framehold_loadtest.tradeoff import calculator, verify
from framehold_loadtest.tradeoff.calculator import Case, cost
from framehold_loadtest.tradeoff.options import Option
from framehold_loadtest.tradeoff.series import VALUES
from framehold_loadtest.tradeoff.turns import Turned
from tests.loadtest.tradeoff.test_calculator import OPTION, RECORDED

pytestmark = pytest.mark.load

CASE = Case(users=60, rounds=3, think=1, state=1024, nodes=3)


def turn(factor: float = 1.0, busy: str = "") -> Turned:
    """A turn of a fleet whose calls cost so many times what was calculated."""
    of = cost(CASE, OPTION)
    seen: dict[str, Measured | Missing] = {
        "cpu_us_node": Measured(value=of.cores / of.calls * 1e6 * factor, unit="us"),
        "store_ops": Measured(value=of.operations / of.calls, unit="operations"),
        "wire_bytes_round_1": Measured(value=of.sent / of.calls, unit="bytes"),
        "bytes_per_parked_call_node": Measured(value=of.memory / of.parked, unit="bytes"),
    }
    return Turned(verify.measured(seen, of.calls, of.parked), busy)


@pytest.mark.parametrize(("factor", "wrong"), [(1.0, []), (1.15, []), (1.3, ["cores"]), (0.7, ["cores"])])
def test_a_figure_holds_within_a_fifth_of_what_was_measured(factor: float, wrong: list[str]) -> None:
    found = verify.figures(CASE, "H-hold", OPTION, [turn(factor)])
    assert [one.name for one in found if not one.holds] == wrong
    assert len(found) == 6


def test_the_median_turn_decides() -> None:
    found = verify.figures(CASE, "H-hold", OPTION, [turn(1.6), turn(0.95), turn(1.1)])
    assert all(one.holds for one in found)
    cores = next(one for one in found if one.name == "cores")
    assert isinstance(cores.measured, Measured)
    assert cores.measured.value == pytest.approx(1.1 * cost(CASE, OPTION).cores, rel=1e-4)
    wrong = verify.figures(CASE, "H-hold", OPTION, [turn(1.6), turn(0.95), turn(1.5)])
    assert [one.name for one in wrong if not one.holds] == ["cores"]


def test_a_busy_machine_verifies_nothing() -> None:
    found = verify.figures(CASE, "H-hold", OPTION, [turn(), turn(busy="others had 1.9 cores")])
    assert not any(one.holds for one in found)
    assert "others had 1.9 cores" in verify.table(found).text()


def test_a_busy_turn_does_not_count_beside_quiet_ones() -> None:
    found = verify.figures(CASE, "H-hold", OPTION, [turn(), turn(5.0, busy="others had 1.9 cores"), turn()])
    assert all(one.holds for one in found)


def test_a_figure_that_was_not_measured_does_not_hold() -> None:
    gone = turn().metrics | {"memory": Missing(missing="no call came to its first question")}
    found = verify.figures(CASE, "H-hold", OPTION, [Turned(gone)])
    assert [one.name for one in found if not one.holds] == ["memory"]
    assert "NOT MEASURED: no call came to its first question" in verify.table(found).text()


def test_a_machine_that_is_slower_than_it_was_changes_no_multiple() -> None:
    """All cost half as much again in one turn; H-hold alone does in another."""
    known = {"H-hold": OPTION, "E": OPTION}
    slow = verify.beside(CASE, "H-hold", known, {(CASE, "H-hold"): [turn(1.5)], (CASE, "E"): [turn(1.5)]})
    assert slow.holds and slow.calculated == 1
    dear = verify.beside(CASE, "H-hold", known, {(CASE, "H-hold"): [turn(1.5)], (CASE, "E"): [turn()]})
    assert (
        not dear.holds and isinstance(dear.measured, Measured) and dear.measured.value == pytest.approx(1.5, rel=1e-4)
    )


def test_a_multiple_that_could_not_be_measured_does_not_hold() -> None:
    known = {"H-hold": OPTION, "E": OPTION}
    gone = Turned(turn().metrics | {"cores": Missing(missing="no call ended")})
    for seen in ([gone], [turn(busy="others had 1.9 cores")]):
        found = verify.beside(CASE, "H-hold", known, {(CASE, "H-hold"): [turn()], (CASE, "E"): seen})
        assert not found.holds and isinstance(found.measured, Missing)


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
    known = calculator.constants(run)
    file = calculator.write(known, tmp_path)

    def served(case: Case, option: Option, folder: Path) -> Turned:
        of = cost(case, known.options[option.name])
        figures = {"calls_per_second": of.calls, "cores": of.cores * factor, "store operations/s": of.operations,
                   "bytes/s": of.sent, "waiting calls": of.parked, "memory": of.memory}  # fmt: skip
        return Turned({name: Measured(value=figure, unit="") for name, figure in figures.items()})

    monkeypatch.setattr(verify, "served", served)
    monkeypatch.setattr(sys, "argv", ["verify", str(file), "--turns", "3"])
    assert verify.main() == code
    out = capsys.readouterr().out
    assert ("DIFFERS" in out) == bool(code)
    assert "turn 3 of 3" in out
