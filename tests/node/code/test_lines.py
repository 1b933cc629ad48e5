"""Places in the author's code, as messages name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from framehold.code import lines


def test_a_file_is_named_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file elsewhere is named whole, and so is each where the working folder was deleted."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    below, beside = str(here / "shop" / "server.py"), str(tmp_path / "server.py")
    assert lines.file_and_line(below, 3) == "shop/server.py:3"
    assert lines.file_and_line(beside, 3) == f"{beside}:3"
    here.rmdir()
    assert lines.file_and_line(below, 3) == f"{below}:3"
