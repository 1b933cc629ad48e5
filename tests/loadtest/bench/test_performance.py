"""docs/performance.md: what a run puts there, and that nothing on it waits for a run in vain."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from framehold_loadtest import marked_page as marks
from framehold_loadtest.bench import __main__ as command
from framehold_loadtest.bench.tables import performance
from framehold_loadtest.peers import __main__ as peers_command
from framehold_loadtest.peers import tables as peers

pytestmark = pytest.mark.load

RECORDED = Path(__file__).parent / "recorded"
PAGE = Path(__file__).parents[3] / "docs" / "performance.md"
FOUND: dict[str, Any] = json.loads((RECORDED / "bench.json").read_text())
PEERS: dict[str, Any] = json.loads((RECORDED / "peers.json").read_text())


def show(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    """The benchmark's command; its exit code."""
    monkeypatch.setattr(sys, "argv", ["bench", *map(str, words)])
    return command.main()


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The page, to be written to."""
    copy = tmp_path / "performance.md"
    copy.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    return copy


def test_every_mark_on_the_page_is_of_a_program_that_fills_it() -> None:
    wanted = {(performance.PROGRAM, name) for name in performance.parts(FOUND)}
    wanted |= {(peers.PROGRAM, name) for name in peers.parts(PEERS)}
    there = re.findall("<!-- begin: (.+): (.+) -->", PAGE.read_text(encoding="utf-8"))
    assert sorted(there) == sorted(wanted)


def test_every_part_of_the_page_was_filled() -> None:
    text = PAGE.read_text(encoding="utf-8")
    parts = re.findall(f"<!-- begin: [^\n]+ -->\n(.*?){marks.END}", text, re.DOTALL)
    assert len(parts) == text.count(marks.END)
    assert all(part.strip() for part in parts)


def test_a_run_is_put_on_the_page_with_where_and_how_it_was_measured(
    monkeypatch: pytest.MonkeyPatch, copied: Path
) -> None:
    """And what the peers put there stays."""
    before = copied.read_text(encoding="utf-8").partition("## Beside its peers")[2]
    assert show(monkeypatch, "--from", RECORDED / "bench.json", "--page", copied) == 0
    text = copied.read_text(encoding="utf-8")
    for label in ("command", "machine", "commit", "date", "load before"):
        assert f"| {label} | {FOUND['machine'][label]} |" in text
    assert "| router to HAProxy, CPU, same hash | 1.5 x | 1.2 x |" in text
    assert all(f"| {name} | {FOUND['seconds'][name]:.0f} s |" in text for name in command.SECTIONS)
    assert text.partition("## Beside its peers")[2] == before


def test_peers_put_theirs_beside_it(monkeypatch: pytest.MonkeyPatch, copied: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["peers", "--from", str(RECORDED / "peers.json"), "--page", str(copied)])
    peers_command.main()
    text = copied.read_text(encoding="utf-8").partition("## Beside its peers")[2]
    assert all(f"| {row['peer']} |" in text for row in PEERS["calls"]["rows"])
    assert f"| peers | {PEERS['machine']['peers']} |" in text


@pytest.mark.parametrize("program", [performance.PROGRAM, peers.PROGRAM])
def test_a_run_of_some_sections_is_not_put_on_the_page(
    program: str, monkeypatch: pytest.MonkeyPatch, copied: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before, part = copied.read_text(encoding="utf-8"), tmp_path / "part.json"
    whole, name, main = (
        (FOUND, "store", command.main) if program == performance.PROGRAM else (PEERS, "relays", peers_command.main)
    )
    part.write_text(json.dumps({key: value for key, value in whole.items() if key != name}))
    monkeypatch.setattr(sys, "argv", [program, "--from", str(part), "--page", str(copied)])
    assert main() == 2
    assert f"the run left out {name}; nothing was written" in capsys.readouterr().err
    assert copied.read_text(encoding="utf-8") == before


def test_some_sections_are_not_even_run_for_a_page(
    monkeypatch: pytest.MonkeyPatch, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What takes minutes must not end with a refusal."""
    with pytest.raises(SystemExit):
        show(monkeypatch, "--only", "store", "--page", copied)
    assert "leave --only out" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(performance.TABLES))
def test_a_section_where_nothing_could_be_measured_shows_the_reason(name: str) -> None:
    """On the terminal and on the page."""
    nothing = {**FOUND[name], "rows": [], "not_available": {name: "no core"}}
    for gone in ("routed", "relays"):
        if gone in nothing:
            nothing[gone] = {}
    shown = performance.TABLES[name](nothing)
    assert any(f"{name}: not available: no core" in table.text() for table in shown)
    assert any(f"- {name}: not available: no core" in table.markdown() for table in shown)


@pytest.mark.parametrize("broken", [{"not_available": {"store": "no Redis"}}, {"rows": [{"errors": {"fenced": 1}}]}])
def test_a_run_with_an_error_or_a_gap_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, broken: dict[str, Any]
) -> None:
    """Also when it is only shown again."""
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"store": {"rows": [], "not_available": {}} | broken}))
    assert show(monkeypatch, "--from", path, "--only", "store") == 1
