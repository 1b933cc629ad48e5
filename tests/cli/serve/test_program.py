"""The entry of a client's configuration that starts a server: it works from any folder, without a shell."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from framehold_cli.serve import program
from tests.cli.local.test_up import framehold
from tests.kit.processes import RUN, environment

SERVER = "from mcp.server import MCPServer\nmcp = MCPServer('m')\n"


def test_paths_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The paths of the executable and of TARGET. A virtual environment's own executable is kept, not the one that it
    links to."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    server = str(tmp_path / "two words.py")
    alone = {"command": f"{tmp_path}/bin/python", "args": ["-m", "framehold", "stdio", f"{server}:mcp"]}
    assert json.loads(program.configuration("two words.py:mcp")) == alone
    (tmp_path / "bin/framehold").touch()
    assert json.loads(program.configuration("two words.py")) == {
        "command": f"{tmp_path}/bin/framehold",
        "args": ["stdio", server],
    }


def test_a_module_of_this_folder_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the current folder gets a PYTHONPATH. An installed module needs none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "of_this_folder.py").touch()
    __import__("of_this_folder")
    entry = json.loads(program.configuration("of_this_folder:mcp"))
    assert entry["args"][-1] == "of_this_folder:mcp" and entry["env"] == {"PYTHONPATH": str(tmp_path)}
    assert "env" not in json.loads(program.configuration("json:mcp"))


def test_a_person_at_a_terminal_is_shown_the_line(tmp_path: Path) -> None:
    """The line is on standard error. The example in the help names this executable too."""
    (tmp_path / "server.py").write_text(SERVER)
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [*RUN, "stdio", "server.py"],
        cwd=tmp_path,
        env=environment(FRAMEHOLD_STOR_URL="x"),
        stdin=slave,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    with child:
        assert child.stderr is not None
        text = [child.stderr.readline().decode() for _ in range(4)]
        child.kill()
    os.close(master)
    os.close(slave)
    assert "FRAMEHOLD_STOR_URL is set, and nothing reads it; did you mean FRAMEHOLD_STORE_URL?" in text[0]
    entry = json.loads(text[3])
    assert Path(entry["command"]).is_absolute() and entry["args"][-2:] == ["stdio", str(tmp_path / "server.py")]
    assert entry["command"] in framehold("stdio", "--help", COLUMNS="300").stdout
