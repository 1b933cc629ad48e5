"""Commands that an installed package adds to `framehold`."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from framehold.cli import plugins

ROOT = Path(__file__).parents[2]


def plugin(value: str) -> EntryPoint:
    return EntryPoint("load", value, plugins.GROUP)


def test_a_plug_in_adds_its_commands() -> None:
    app = typer.Typer()
    plugins.add(app, [plugin("framehold_loadtest.cli:add")])
    assert [command.callback.__name__ for command in app.registered_commands if command.callback] == ["load"]
    assert "SCENARIO" in CliRunner().invoke(app, ["--help"]).output


def test_one_that_cannot_be_loaded_costs_a_line_and_no_other_command(capsys: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer()
    plugins.add(app, [plugin("framehold_no_such_room:add"), plugin("framehold_loadtest.cli:add")])
    assert len(app.registered_commands) == 1
    assert "the commands of framehold_no_such_room:add are missing (ModuleNotFoundError" in capsys.readouterr().err


def test_the_distribution_registers_the_load_tests() -> None:
    assert 'load = "framehold_loadtest.cli:add"' in (ROOT / "pyproject.toml").read_text("utf-8")
