"""The README's moving picture shows the run that is recorded beside it, of the server that the README has."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.takeover_picture import END, LOOP, PICTURE, RECORDING, Recording, drawn
from tests.tutorials.page import ROOT, blocks

RUN: Recording = json.loads(RECORDING.read_text("utf-8"))


def draw(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the script."""
    command = [sys.executable, "-m", "docs.takeover_picture", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_the_picture_is_that_of_the_recording() -> None:
    checked = draw("--check")
    assert checked.returncode == 0, checked.stderr


def test_the_recorded_server_is_the_present_one_of_the_readme() -> None:
    """Whoever changes the program records another run."""
    assert RUN["server"] == next(block.text for block in blocks("../README.md") if block.language == "python")


def test_the_run_is_the_one_that_the_sentences_tell() -> None:
    """Another process carries the call on, the effect runs once, and the end is shown long enough to be read."""
    assert RUN["asked"] != RUN["took"]
    assert "".join(text for _, _, text in RUN["shown"]).count("reserved: tea") == 1
    with pytest.raises(ValueError, match="never shows"):
        drawn({**RUN, "shown": [row for row in RUN["shown"] if "takeover" not in row[2]]})
    with pytest.raises(ValueError, match="too long"):
        drawn({**RUN, "shown": [*RUN["shown"], (LOOP - END + 0.1, "fleet", "late")]})


def test_it_can_be_shown_anywhere() -> None:
    """An image may run no script and load nothing; without animations it shows the end of the run."""
    text = PICTURE.read_text("utf-8")
    assert len(text) < 60_000
    assert not re.search(r"<script|<image|<foreignObject|@import|url\(|href=", text)
    assert re.findall(r"https?://[^\s\"<]+", re.sub(r"http://127\.0\.0\.1:\d+\S*", "", text)) == [
        "http://www.w3.org/2000/svg"
    ]
    assert "prefers-reduced-motion:reduce" in text and "visibility:hidden" in re.sub(r"to\{[^}]*\}", "", text)
    assert not re.search(r"<t(?:ext|span)[^>]*visibility", text)
