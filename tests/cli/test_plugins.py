"""Commands that an installed package adds to `framehold`."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import framehold_cli as cli
from framehold_cli import plugins

ROOT = Path(__file__).parents[2]


def plugin(value: str) -> EntryPoint:
    return EntryPoint("load", value, plugins.GROUP)


@pytest.mark.load
def test_a_plug_in_adds_its_commands() -> None:
    app = typer.Typer()
    plugins.add(app, [plugin("framehold_loadtest.cli:add")])
    assert [command.callback.__name__ for command in app.registered_commands if command.callback] == ["load"]
    assert "SCENARIO" in CliRunner().invoke(app, ["--help"]).output


@pytest.mark.load
def test_one_that_cannot_be_loaded_costs_a_line_and_no_other_command(capsys: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer()
    plugins.add(app, [plugin("framehold_no_such_room:add"), plugin("framehold_loadtest.cli:add")])
    assert len(app.registered_commands) == 1
    assert "the commands of framehold_no_such_room:add are missing (ModuleNotFoundError" in capsys.readouterr().err


def test_the_distribution_registers_the_load_tests() -> None:
    assert 'load = "framehold_loadtest.cli:add"' in (ROOT / "loadtest" / "pyproject.toml").read_text("utf-8")


@pytest.mark.parametrize("words", [["load"], ["load", "kill", "--users", "2"], ["bench", "tradeoff", "--quick"]])
def test_without_that_distribution_its_commands_say_how_to_get_it(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, and nothing is said before somebody asks for them."""
    app = typer.Typer()
    app.callback()(lambda: None)
    plugins.add(app, [])
    assert "load" not in CliRunner().invoke(app, ["--help"]).output
    monkeypatch.setattr(cli, "app", app)
    monkeypatch.setattr(plugins, "add", lambda app: None)
    monkeypatch.setattr("sys.argv", ["framehold", *words])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert text.startswith(f"framehold: framehold {words[0]} needs framehold-loadtest; nothing was started;")
    assert "pip install 'framehold[load]'" in text
