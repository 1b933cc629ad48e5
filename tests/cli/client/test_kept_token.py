"""The token that `framehold up` leaves for its user's other commands, and for nobody else."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from framehold.cli.client import kept_token

URL = "http://127.0.0.1:8080"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The runtime folder of the user."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def test_it_is_found_until_it_is_dropped(folder: Path) -> None:
    """The file is found by the port, and only its user can read it."""
    file = kept_token.keep(8080, "secret")
    assert file is not None and file.parent == folder and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert kept_token.found(URL) == "secret"
    kept_token.drop(file)
    assert kept_token.found(URL) is None and not list(folder.iterdir())
    kept_token.drop(file)


def test_a_file_that_was_left_is_made_anew() -> None:
    """A process that has the old file open doesn't see the new token."""
    first = kept_token.keep(8080, "old")
    assert first is not None
    with first.open() as opened:
        kept_token.keep(8080, "new")
        assert opened.read() == "old"
    assert kept_token.found(URL) == "new"


def test_a_link_is_not_followed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Links are refused on writing and on reading."""
    aim = tmp_path_factory.mktemp("other") / "aim"
    aim.write_text("theirs")
    aim.chmod(0o600)
    kept_token.path(8080).symlink_to(aim)
    assert kept_token.found(URL) is None
    kept_token.keep(8080, "secret")
    assert aim.read_text() == "theirs" and kept_token.found(URL) == "secret"


def test_what_others_can_read_or_own_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    file = kept_token.keep(8080, "secret")
    assert file is not None
    file.chmod(0o640)
    assert kept_token.found(URL) is None
    file.chmod(0o600)
    own = kept_token.path(8080)
    monkeypatch.setattr(kept_token, "path", lambda _: own)
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    assert kept_token.found(URL) is None


def test_a_pipe_in_its_place_holds_nobody_up() -> None:
    os.mkfifo(kept_token.path(8080), 0o600)
    assert kept_token.found(URL) is None


def test_without_a_runtime_folder_it_is_with_temporary_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The name of the file contains the user id. A runtime folder that others can write to is not used either."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("tmp")))
    folder.chmod(0o777)
    file = kept_token.keep(8080, "secret")
    assert file is not None and file.name == f"framehold-{os.getuid()}-8080.token" and file.parent != folder
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert kept_token.found(URL) == "secret"


def test_where_it_can_not_be_kept_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_token, "path", lambda _: Path("/nowhere/at/all"))
    assert kept_token.keep(8080, "secret") is None
    kept_token.drop(None)
