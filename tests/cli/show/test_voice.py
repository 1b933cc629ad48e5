"""What is rendered for a terminal."""

from __future__ import annotations

import pytest
from rich.text import Text

from framehold_cli.show.voice import drawn


def test_no_color_leaves_out_every_style(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bold and dim, too."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert drawn(Text("Which room?", style="bold red")) == "\x1b[1;31mWhich room?\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert drawn(Text("Which room?", style="bold red")) == "Which room?"
