"""`framehold bench tradeoff`: what it refuses before anything is started, and a small one of real processes."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from framehold_loadtest import cli
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.marked_page import END, begin
from framehold_loadtest.report import data
from framehold_loadtest.tradeoff import compare, pace
from framehold_loadtest.tradeoff.markdown import PART, PROGRAM
from framehold_loadtest.tradeoff.options import OPTIONS

MINIATURE = replace(pace.QUICK, users=4, thinkers=12, parked=20, steady=0.8, lead=0.8)


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
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert "pip install 'framehold[load]'" in bench().output


def test_an_option_that_cannot_be_served_says_why_in_each_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise NotAvailable("install haproxy")

    monkeypatch.setitem(OPTIONS, "E", replace(OPTIONS["E"], make=refuse))
    found = compare.compare(compare.Order(tmp_path, MINIATURE, ["E"], ["steady", "store pause"]), print)
    for cell in found.cells:
        assert set(cell.metrics.values()) == {data.Missing(missing="install haproxy")}
    assert [cell.condition for cell in found.cells] == ["steady", "store pause"]


def test_two_options_under_two_conditions_leave_a_report_and_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Framehold takes over what a killed node held, and repeats nothing. The naive handler repeats its effect, and
    nobody is told but by the ledger: no call is lost."""
    monkeypatch.setattr(pace, "QUICK", MINIATURE)
    page = tmp_path / "tradeoff.md"
    page.write_text(f"{begin(PROGRAM, PART)}\n{END}\n")
    words = ["--only", "H-hold", "--only", "E naive", "--under", "steady", "--under", "node killed", "--quick"]
    ran = bench(*words, "--out", str(tmp_path / "out"), "--page", str(page))
    assert ran.exit_code == 0, ran.output
    found = data.read(tmp_path / "out" / "report.json")
    assert isinstance(found, data.Tradeoff)
    seen = {(cell.option, cell.condition, name): getattr(one, "value", None)
            for cell in found.cells for name, one in cell.metrics.items()}  # fmt: skip
    for condition in ("steady", "node killed"):
        assert seen["H-hold", condition, "duplicate_effects"] == seen["H-hold", condition, "calls_lost"] == 0
        assert seen["E naive", condition, "duplicate_effects"] > 0
        assert seen["E naive", condition, "reexecutions"] >= 2
    assert seen["H-hold", "steady", "reexecutions"] == 0 < seen["H-hold", "node killed", "reexecutions"]
    assert seen["H-hold", "steady", "store_ops"] > 0 == seen["E naive", "steady", "store_ops"]
    assert seen["H-hold", "steady", "bytes_per_parked_call_node"] is not None
    assert "### Node killed" in page.read_text() and (tmp_path / "tradeoff" / "latency.png").is_file()
    assert "H-hold (1 of 2)" in ran.output and "node killed" in ran.output
