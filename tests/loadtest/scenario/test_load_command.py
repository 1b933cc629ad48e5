"""`framehold load`: what it refuses, each time before anything is started."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from framehold_loadtest import cli
from framehold_loadtest.scenario.scenarios import SCENARIOS
from framehold_loadtest.scenario.swarm import Crowd, command

pytestmark = pytest.mark.load


def load(*words: str) -> Result:
    app = typer.Typer()
    cli.add(app)
    return CliRunner().invoke(app, ["load", *words])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["tidal"], f"there is no scenario tidal; nothing was started; there are: {', '.join(SCENARIOS)}"),
        (["kill", "--url", "http://127.0.0.1:1"], "makes faults, which can't be reached by --url; nothing was started"),
        (["steady", "--url", "http://127.0.0.1:1/mcp"], "nobody answers at http://127.0.0.1:1: "),
        (["steady", "--port", "1"], "nobody answers at http://127.0.0.1:1: "),
        (["steady", "--ledger", "there"], "--api and --ledger are of a fleet at --url or --port; nothing was started"),
    ],
)
def test_what_cannot_be_run_is_refused_in_a_sentence(words: list[str], why: str, tmp_path: Path) -> None:
    refused = load(*words, "--out", str(tmp_path / "out"))
    assert (refused.exit_code, why in refused.output) == (2, True), refused.output
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("mine")
    refused = load("steady", "--out", str(tmp_path))
    assert (refused.exit_code, "is not empty; nothing was started" in refused.output) == (2, True)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    refused = load("steady")
    assert (refused.exit_code, "pip install 'framehold[load]'" in refused.output) == (2, True)


HERE = ["--master-bind-host", "127.0.0.1"]
"""Where locust listens for its workers."""


def test_locust_is_told_all_of_it(tmp_path: Path) -> None:
    """Its files, its time to stop in, and its page or none. Its ports are for this machine alone."""
    result = command(tmp_path, "http://127.0.0.1:1", Crowd("kill", users=7, seconds=9.0, workers=2))
    for pair in (["--host", "http://127.0.0.1:1"], ["--callers", "7"], ["--seconds", "9"], ["--processes", "2"], HERE):
        assert " ".join(pair) in " ".join(result)
    assert {"--headless", "--csv-full-history", "--html", "--json-file", "--stop-timeout"} <= set(result)
    shown = command(tmp_path, "http://127.0.0.1:1", Crowd("kill", ui=8089))
    assert "--headless" not in shown and " ".join(shown).endswith("--web-host 127.0.0.1 --web-port 8089")
