"""A router's temporary folder goes with its process, also with one that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from framehold_core.errors import ConfigError
from framehold_router.own_folder import PREFIX, own_folder
from tests.kit.processes import environment

HOLDS = """
import sys
from framehold_router.own_folder import own_folder
with own_folder() as folder:
    (folder / "pages").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


class Holder:
    """A process with a folder of its own."""

    def __init__(self, place: Path) -> None:
        command, env = [sys.executable, "-c", HOLDS], environment(TMPDIR=str(place))
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True)
        assert self.process.stdout is not None
        self.folder = Path(self.process.stdout.readline().strip())

    def end(self, how: signal.Signals | None) -> None:
        if how is not None:
            self.process.send_signal(how)
        self.process.communicate()


def test_nowhere_to_make_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose files can't be written."""
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", list)
    with pytest.raises(ConfigError, match="nothing was started; mount a tmpfs at /tmp, or set TMPDIR"), own_folder():
        pass


def test_it_goes_with_its_block(place: Path) -> None:
    with own_folder() as folder:
        assert folder.parent == place and folder.stat().st_mode & 0o077 == 0
    assert list(place.iterdir()) == []


def test_the_next_process_removes_what_a_killed_one_left(place: Path) -> None:
    killed, alive = Holder(place), Holder(place)
    killed.end(signal.SIGKILL)
    young, old = place / f"{PREFIX}young", place / f"{PREFIX}old"
    for folder in (young, old, place / "other"):
        folder.mkdir()
    os.utime(old, (0, 0))
    assert killed.folder.exists()
    with own_folder() as own:
        assert set(place.iterdir()) == {own, alive.folder, young, place / "other"}
    alive.end(None)
    assert not alive.folder.exists()
