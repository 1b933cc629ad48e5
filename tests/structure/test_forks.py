"""A process of tests that is forked is like one that was started: words, environment, folder, files, end."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.kit.forks import forks
from tests.kit.nodes import NodeProcess
from tests.kit.processes import RUN, stat, until


def test_what_is_forked() -> None:
    """`framehold` by this Python, but for `framehold up`; nothing that changes Python itself."""
    assert forks([*RUN, "node", "x"], {"PYTHONPATH": "y", "FRAMEHOLD_KEYS": "z"})
    assert not forks([*RUN, "up"], {})
    assert not forks([sys.executable, "-m", "http.server"], {})
    assert not forks([*RUN, "node", "x"], {"PYTHONASYNCIODEBUG": "1"})


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
