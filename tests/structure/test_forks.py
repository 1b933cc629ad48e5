"""A process of tests that is forked is like one that was started: words, environment, folder, files, end."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from framehold import __version__
from tests.forks import forks
from tests.node.nodes import KEY, NodeProcess
from tests.processes import RUN, Child, finished, stat, until

OWN = """import os
from mcp.server import MCPServer

mcp = MCPServer(os.environ["OWN"])
"""


def test_what_is_forked() -> None:
    """`framehold` by this Python, but for `framehold up`; nothing that changes Python itself."""
    assert forks([*RUN, "node", "x"], {"PYTHONPATH": "y", "FRAMEHOLD_KEYS": "z"})
    assert not forks([*RUN, "up"], {})
    assert not forks([sys.executable, "-m", "http.server"], {})
    assert not forks([*RUN, "node", "x"], {"PYTHONASYNCIODEBUG": "1"})


def test_what_a_command_prints_and_how_it_ends() -> None:
    assert finished([*RUN, "--version"]).stdout == f"framehold {__version__}\n"
    wrong = finished([*RUN, "nodse"])
    assert wrong.returncode == 2 and "nodse" in wrong.stderr and wrong.stdout == ""


@pytest.mark.anyio
async def test_a_child_has_its_own_folder_environment_and_session(tmp_path: Path) -> None:
    """Its server is found from its folder, and a setting of another child is none of its own."""
    (tmp_path / "own.py").write_text(OWN)
    other = finished([*RUN, "node", "own", "--port", "0"], cwd=tmp_path, FRAMEHOLD_KEYS=KEY)
    assert other.returncode == 2 and "KeyError: 'OWN'" in other.stderr
    env = {"OWN": "named", "FRAMEHOLD_KEYS": KEY, "PATH": "/usr/bin:/bin"}
    child = Child([*RUN, "node", "own", "--port", "0"], tmp_path / "log", env=env, cwd=tmp_path)
    child.launch()
    try:
        await child.until(lambda: " serves " in child.log(), "its start")
        assert stat(child.pid)[3] == str(child.pid), "it has a session of its own"
    finally:
        child.stop()


@pytest.mark.anyio
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_how_a_child_ended_is_known(tmp_path: Path, how: signal.Signals) -> None:
    """As of any child: minus the signal that ended it."""
    child = NodeProcess("framehold.examples.booking", tmp_path / "log")
    await child.start()
    assert child.alive and child.code is None
    child.send_signal(how)
    await until(lambda: stat(child.pid)[:1] == ["Z"], "its end")
    child.send_signal(signal.SIGCONT)  # its pid is its own until somebody has asked how it ended
    assert await child.ends() == -how
    await until(lambda: not stat(child.pid), "nothing of it is left")
    child.stop()
