"""The pages on speed: what a run puts there, and that nothing on them waits for a run in vain."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from framehold_loadtest import table as marks
from framehold_loadtest.bench import __main__ as command
from framehold_loadtest.bench import pages
from framehold_loadtest.peers import __main__ as peers
from framehold_loadtest.scale import tables as scale

pytestmark = pytest.mark.load

RECORDED = Path(__file__).parent / "recorded"
ROOT = Path(__file__).parents[3]
OVERVIEW = ROOT / "docs" / "measured.md"
REPORT, BESIDE = (ROOT / "loadtest" / "reports" / name for name in ("performance.md", "peers.md"))
FOUND: dict[str, Any] = json.loads((RECORDED / "bench.json").read_text())
PEERS: dict[str, Any] = json.loads((RECORDED / "peers.json").read_text())


def show(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    """The benchmark's command; its exit code."""
    monkeypatch.setattr(sys, "argv", ["bench", *map(str, words)])
    return command.main()


@pytest.fixture
def copied(tmp_path: Path) -> list[Path]:
    """The pages, to be written to: the overview, the report, and that of the peers."""
    return [Path(shutil.copy(page, tmp_path)) for page in (OVERVIEW, REPORT, BESIDE)]


def texts(files: list[Path]) -> list[str]:
    return [page.read_text(encoding="utf-8") for page in files]


def pages_of(*files: Path) -> list[str]:
    """The options that name them."""
    return [word for page in files for word in ("--page", str(page))]


def parts_of(program: str, text: str) -> dict[str, str]:
    """What stands between the marks of a program."""
    return dict(re.findall(f"<!-- begin: {re.escape(program)}: ([^\n]+) -->\n(.*?){marks.END}", text, re.DOTALL))


@pytest.mark.parametrize(
    ("program", "wanted", "files"),
    [
        (pages.PROGRAM, {*pages.parts(FOUND)}, [OVERVIEW, REPORT]),
        (peers.PROGRAM, {*peers.parts(PEERS)}, [BESIDE]),
    ],
)
def test_every_part_of_a_run_has_a_page_and_every_mark_a_program_that_fills_it(
    program: str, wanted: set[str], files: list[Path]
) -> None:
    """Each part is on one page. Where it was measured is on each."""
    there = [name for text in texts(files) for name in marks.names(text, program)]
    assert sorted(there) == sorted([*wanted, *["machine"] * (len(files) - 1)])
    for page in (REPORT, BESIDE):
        known = {pages.PROGRAM, peers.PROGRAM}
        assert set(re.findall("<!-- begin: (.+): .+ -->", page.read_text(encoding="utf-8"))) <= known


def test_every_part_of_the_pages_was_filled_by_the_same_run() -> None:
    overview, report, beside = texts([OVERVIEW, REPORT, BESIDE])
    for text in (overview, report, beside):
        parts = re.findall(f"<!-- begin: [^\n]+ -->\n(.*?){marks.END}", text, re.DOTALL)
        assert len(parts) == text.count(marks.END) > 0
        assert all(part.strip() for part in parts)
    program = pages.PROGRAM
    assert parts_of(program, overview)["machine"] == parts_of(program, report)["machine"]


def test_a_run_is_put_on_the_pages_with_where_and_how_it_was_measured(
    monkeypatch: pytest.MonkeyPatch, copied: list[Path]
) -> None:
    """And what other programs put there stays."""
    overview, report, _ = copied
    before = overview.read_text(encoding="utf-8").partition("## The trade-off")[2]
    assert show(monkeypatch, "--from", RECORDED / "bench.json", *pages_of(overview, report)) == 0
    first, full, _ = texts(copied)
    for label in ("command", "machine", "commit", "date", "load before"):
        line = f"| {label} | {FOUND['machine'][label]} |"
        assert line in first and line in full
    assert "| router to HAProxy, CPU, same hash | 1.5 x | 1.2 x |" in first
    assert all(f"| {name} | {FOUND['seconds'][name]:.0f} s |" in full for name in pages.SECTIONS)
    assert first.partition("## The trade-off")[2] == before
    assert marks.names(before, scale.PROGRAM), "tables of other programs follow"


def test_peers_put_theirs_on_their_page(monkeypatch: pytest.MonkeyPatch, copied: list[Path]) -> None:
    *_, beside = copied
    monkeypatch.setattr(sys, "argv", ["peers", "--from", str(RECORDED / "peers.json"), *pages_of(beside)])
    peers.main()
    text = beside.read_text(encoding="utf-8")
    assert all(f"| {row['server']} |" in text for row in PEERS["calls"]["rows"])
    assert f"| peers | {PEERS['machine']['peers']} |" in text


def test_a_run_of_some_sections_is_not_put_on_the_pages(
    monkeypatch: pytest.MonkeyPatch, copied: list[Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before, part = texts(copied), tmp_path / "part.json"
    part.write_text(json.dumps({key: value for key, value in FOUND.items() if key != "store"}))
    assert show(monkeypatch, "--from", part, *pages_of(*copied[:2])) == 2
    assert "the run left out store; nothing was written" in capsys.readouterr().err
    assert texts(copied) == before


def test_a_page_that_is_not_there_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, copied: list[Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit):
        show(monkeypatch, *pages_of(copied[0], tmp_path / "none.md"))
    assert f"there is no page {tmp_path / 'none.md'}" in capsys.readouterr().err


def test_some_sections_are_not_even_run_for_a_page(
    monkeypatch: pytest.MonkeyPatch, copied: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """What takes minutes must not end with a refusal."""
    with pytest.raises(SystemExit):
        show(monkeypatch, "--only", "store", *pages_of(*copied))
    assert "leave --only out" in capsys.readouterr().err


@pytest.mark.parametrize("name", pages.SECTIONS)
def test_a_section_where_nothing_could_be_measured_shows_the_reason(name: str) -> None:
    """On the terminal and on the page."""
    shown = pages.tables(name, {**FOUND[name], "rows": [], "not_available": {name: "no core"}})
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
