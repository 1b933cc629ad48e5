"""`framehold bench tradeoff`: what it refuses before anything is started, and a small one of real processes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer
from typer.testing import CliRunner, Result

from framehold_loadtest import cli
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.report import data
from framehold_loadtest.table import END, begin
from framehold_loadtest.tradeoff import compare, meter, pace, series
from framehold_loadtest.tradeoff.metrics import Turned
from framehold_loadtest.tradeoff.options import OPTIONS
from framehold_loadtest.tradeoff.pages import HARMS, PART, PROGRAM

pytestmark = pytest.mark.load

MINIATURE = replace(pace.QUICK, turns=1, users=4, thinkers=12, parked=20, steady=0.8, lead=2.0, point=0.3, heavy=10)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def marked(folder: Path) -> Path:
    """A page that can be filled."""
    page = folder / "tradeoff.md"
    page.write_text("".join(f"{begin(PROGRAM, part)}\n{END}\n" for part in (HARMS, PART)))
    return page


def bench(*words: str) -> Result:
    app = typer.Typer()
    cli.add(app)
    return CliRunner().invoke(app, ["bench", "tradeoff", *words])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--only", "B"], "there is no option B; nothing was started; there are: H-hold, H-replay, E,"),
        (["--under", "rain"], "there is no condition rain; nothing was started; there are: steady, node killed,"),
        (["--page", "/nowhere.md"], "/nowhere.md"),
    ],
)
def test_what_cannot_be_run_is_refused_in_a_sentence(words: list[str], why: str, tmp_path: Path) -> None:
    refused = bench(*words, "--out", str(tmp_path / "out"))
    assert (refused.exit_code, why in refused.output) == (2, True), refused.output
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("mine")
    refused = bench("--out", str(tmp_path))
    assert (refused.exit_code, "is not empty; nothing was started" in refused.output) == (2, True)


def test_without_what_it_needs_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert "redis-server is not installed; nothing was started" in bench().output


def test_an_option_that_cannot_be_served_says_why_in_each_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise NotAvailable("install haproxy")

    monkeypatch.setitem(OPTIONS, "E", replace(OPTIONS["E"], make=refuse))
    found = compare.compare(compare.Order(tmp_path, MINIATURE, ["E"], ["steady", "store pause"]), print)
    gap = data.Missing(missing="install haproxy")
    assert [cell.condition for cell in found.cells] == ["steady", "store pause"]
    assert all(set(cell.metrics.values()) == {gap} for cell in found.cells)
    assert {one.metrics["cpu_us"] for sweep in found.series for one in sweep.points} == {gap}


def played(monkeypatch: pytest.MonkeyPatch, busy: str = "") -> None:
    """Each cell has a rate, and no process is started."""
    rate: data.Measured | data.Missing = data.Measured(value=1.0, unit="1/s")
    turned = Turned({"calls_per_second": rate}, busy)
    monkeypatch.setattr(compare, "_option", lambda order, *_: dict.fromkeys(order.conditions, turned))


def test_a_busy_machine_ends_the_run_after_its_first_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: Path
) -> None:
    """With the reason in each cell, on the terminal and on the page, and exit code 1."""
    monkeypatch.setattr(pace, "QUICK", replace(MINIATURE, turns=3))
    played(monkeypatch, "other programs had 7.5 cores")
    page = marked(tmp_path)
    words = ["--only", "E", "--under", "steady", "--under", "series", "--quick"]
    ran = bench(*words, "--out", str(out), "--page", str(page))
    assert ran.exit_code == 1, ran.output
    assert "turn 2" not in ran.output and "stopped after the first turn" in ran.output
    why = "not measured: the machine was busy, in 1 of 1 turns: other programs had 7.5 cores"
    assert f"no figures of E under steady: {why}" in ran.output
    assert why in page.read_text() and why in (out / "report.md").read_text()


def test_a_calculation_without_constants_says_how_to_measure_them(tmp_path: Path) -> None:
    refused = bench("--calculate", "users=5", "--constants", str(tmp_path / "none.json"))
    assert refused.exit_code == 2
    assert "nothing was calculated; run framehold bench tradeoff --out DIR" in refused.output


def test_two_options_under_two_conditions_and_the_series_leave_a_report_a_page_and_constants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: Path
) -> None:
    """Framehold takes over what a killed node held, and repeats nothing. The naive handler repeats its effect, and
    nobody is told but by the ledger: no call is lost. The calculator takes what the run wrote."""
    monkeypatch.setattr(pace, "QUICK", MINIATURE)
    monkeypatch.setattr(meter, "busy", lambda _: "")
    page, words = marked(tmp_path), ["--only", "H-hold", "--only", "E naive"]
    words += ["--under", "steady", "--under", "node killed", "--under", "series", "--quick"]
    ran = bench(*words, "--out", str(out), "--page", str(page))
    assert ran.exit_code == 0, ran.output
    found = data.Tradeoff.model_validate_json((out / "report.json").read_bytes())
    seen: dict[tuple[str, str, str], Any] = {(cell.option, cell.condition, name): getattr(one, "value", None)
            for cell in found.cells for name, one in cell.metrics.items()}  # fmt: skip
    for condition in ("steady", "node killed"):
        assert seen["H-hold", condition, "repeated_share"] == seen["H-hold", condition, "lost_share"] == 0
        assert seen["E naive", condition, "repeated_share"] > 0
        assert seen["E naive", condition, "reexecutions"] >= 2
    assert seen["H-hold", "steady", "reexecutions"] == 0 < seen["H-hold", "node killed", "reexecutions"]
    assert seen["H-hold", "steady", "store_ops"] > 0 == seen["E naive", "steady", "store_ops"]
    assert seen["H-hold", "steady", "bytes_per_parked_call_node"] is not None
    assert seen["E naive", "steady", "repeated_share"] == 100
    assert seen["H-hold", "node killed", "wait_longest_ms"] > MINIATURE.lease_ttl * 1e3 / 2
    assert seen["H-hold", "node killed", "seconds_to_recover"] > MINIATURE.lease_ttl / 2
    assert "### Steady" in page.read_text()
    assert {sweep.name: tuple(one.x for one in sweep.points) for sweep in found.series} == series.VALUES
    asked = bench("--calculate", "users=50 think=2", "--constants", str(out / "constants.json"))
    assert asked.exit_code == 0 and "50 users, 3 rounds, 2 s of thought" in asked.output, asked.output
