"""The file that `framehold up` leaves for its user's other commands, and for nobody else."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from framehold_cli.client import local_fleets
from framehold_cli.client.local_fleets import LocalFleet

URL = "http://127.0.0.1:8080"


def fleet(token: str, port: int = 8080, **other: Any) -> LocalFleet:
    return LocalFleet(port=port, admin_token=token, **other)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The runtime folder of the user."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def test_it_is_found_until_it_is_dropped(folder: Path) -> None:
    """The file is found by the port, and only its user can read it."""
    file = local_fleets.keep(fleet("secret"))
    assert file is not None and file.parent == folder and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert local_fleets.admin_token(URL) == "secret"
    local_fleets.drop(file)
    assert local_fleets.admin_token(URL) is None and not list(folder.iterdir())
    local_fleets.drop(file)


def test_a_file_that_was_left_is_made_anew() -> None:
    """A process that has the old file open doesn't see the new token."""
    first = local_fleets.keep(fleet("old"))
    assert first is not None
    with first.open() as opened:
        local_fleets.keep(fleet("new"))
        assert "old" in opened.read()
    assert local_fleets.admin_token(URL) == "new"


def test_a_link_is_not_followed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Links are refused on writing and on reading."""
    aim = tmp_path_factory.mktemp("other") / "aim"
    aim.write_text("theirs")
    aim.chmod(0o600)
    local_fleets.path(8080).symlink_to(aim)
    assert local_fleets.admin_token(URL) is None
    local_fleets.keep(fleet("secret"))
    assert aim.read_text() == "theirs" and local_fleets.admin_token(URL) == "secret"


def test_what_others_can_read_or_own_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    file = local_fleets.keep(fleet("secret"))
    assert file is not None
    file.chmod(0o640)
    assert local_fleets.admin_token(URL) is None
    file.chmod(0o600)
    own = local_fleets.path(8080)
    monkeypatch.setattr(local_fleets, "path", lambda _: own)
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    assert local_fleets.admin_token(URL) is None


def test_a_pipe_in_its_place_holds_nobody_up() -> None:
    os.mkfifo(local_fleets.path(8080), 0o600)
    assert local_fleets.admin_token(URL) is None


def test_without_a_runtime_folder_it_is_with_temporary_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The name of the file contains the user id. A runtime folder that others can write to is not used either."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("tmp")))
    folder.chmod(0o777)
    file = local_fleets.keep(fleet("secret"))
    assert file is not None and file.name == f"framehold-{os.getuid()}-8080.json" and file.parent != folder
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert local_fleets.admin_token(URL) == "secret"


def test_where_it_can_not_be_kept_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_fleets, "path", lambda _: Path("/nowhere/at/all"))
    assert local_fleets.keep(fleet("secret")) is None
    local_fleets.drop(None)


def test_a_folder_whose_name_is_not_utf_8() -> None:
    """The fleet runs, and is found by none."""
    assert local_fleets.keep(fleet("secret", folder="/home/\udce4")) is None
    assert local_fleets.at(URL) is None


def test_without_any_folder_there_is_no_fleet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose files can't be written."""

    def none() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    folder.chmod(0o777)
    monkeypatch.setattr(tempfile, "gettempdir", none)
    assert local_fleets.running() == [] and local_fleets.at(URL) is None and local_fleets.keep(fleet("x")) is None


def test_what_it_says_of_a_fleet_is_read_whole() -> None:
    """A file that names another port than its own name does, or is no description, is not believed."""
    result = fleet("secret", serves="shop.py", folder="/home/ada", namespace="n", keys="k", store_url="unix:///s")
    file = local_fleets.keep(result)
    assert local_fleets.at(f"{URL}/mcp") == result and "secret" not in repr(result)
    assert local_fleets.at("http://elsewhere:8080") is None and local_fleets.at("http://127.0.0.1:8081") is None
    assert file is not None
    for wrong in ('{"port": 8081}', "[]", "no JSON", '{"port": 0}', ""):
        file.write_text(wrong)
        assert local_fleets.at(URL) is None


def test_only_fleets_that_listen_run(folder: Path) -> None:
    """A fleet that was killed leaves its file. Files of other programs are left alone."""
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        ports = sorted(one.getsockname()[1] for one in (first, second))
        for port in (*reversed(ports), 1):
            local_fleets.keep(fleet("secret", port))
        (folder / "framehold-x.json").write_text("{}")
        assert [one.port for one in local_fleets.running()] == ports
    assert local_fleets.running() == []


KEEPS = """
import sys
from framehold_cli.client import local_fleets
from framehold_cli.client.local_fleets import LocalFleet
local_fleets.keep(LocalFleet(port=int(sys.argv[1]), admin_token="secret"))
print("kept", flush=True)
sys.stdin.read()
"""


def test_the_file_of_a_fleet_that_was_killed_is_not_believed(folder: Path) -> None:
    """Whoever listens on its port now is somebody else: nothing of that run is sent there."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        command = [sys.executable, "-c", KEEPS, str(port)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as up:
            assert up.stdout is not None and up.stdout.readline() == "kept\n"
            assert local_fleets.admin_token(f"http://127.0.0.1:{port}") == "secret"
            assert [one.port for one in local_fleets.running()] == [port]
            up.kill()
            up.wait()
        assert local_fleets.path(port).exists()
        assert local_fleets.admin_token(f"http://127.0.0.1:{port}") is None and local_fleets.running() == []
