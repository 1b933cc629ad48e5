"""README.md: its server does what the page says, and a stranger can read the page in a minute."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import takeover_picture
from tests.kit.processes import ROOT
from tests.tutorials.page import blocks

README = (ROOT / "README.md").read_text("utf-8").splitlines()
[SERVER] = [block.text for block in blocks("../README.md") if block.language == "python"]


@pytest.mark.anyio
@pytest.mark.fleet
async def test_a_call_of_its_server_survives_a_kill(tmp_path: Path) -> None:
    """The run of the README's picture, without its pauses: the answer reaches another process, the effect has run once,
    and a picture can be drawn of it."""
    run = await takeover_picture.record(tmp_path, "framehold up --port 0 server.py", pace=0)
    shown = {pane: "".join(text for _, name, text in run["shown"] if name == pane) for pane in takeover_picture.PANES}
    assert run["server"] == SERVER and run["asked"] != run["took"]
    assert shown["fleet"].count("reserved: tea") == 1 and "died (SIGKILL)" in shown["fleet"]
    assert "tea goes to Elm" in shown["call"]
    assert f"4  Process {run['took']} enters the tool again" in takeover_picture.drawn(run)


def test_it_is_short() -> None:
    """The page, its lines (but for those of a table, and those that are one link), and its program."""
    assert len(README) <= 110
    assert [line for line in README if len(line) > 120 and not line.startswith(("|", "[![", "!["))] == []
    assert len([line for line in SERVER.splitlines() if line]) <= 12


def test_the_site_begins_with_the_same_program() -> None:
    assert [block.text for block in blocks("index.md") if block.language == "python"] == [SERVER]
