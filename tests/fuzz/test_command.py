"""What `make fuzz` starts, it ends, also when it is told to end."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.processes import Child, alive, descendants, until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("part", "how"), [("haproxy", signal.SIGTERM), ("store", signal.SIGINT)])
async def test_a_run_that_is_ended_leaves_nothing(part: str, how: signal.Signals, tmp_path: Path) -> None:
    """Its part runs in a process of its own, below which is a server."""
    own = {**os.environ, "TMPDIR": str(tmp_path / "own")}
    (tmp_path / "own").mkdir()
    child = Child([sys.executable, "-m", "tests.fuzz", "--part", part, "--seconds", "600"], tmp_path / "log", env=own)
    child.launch()
    try:
        started = await child.until(lambda: len(found := descendants(child.pid)) > 1 and found, "what it starts")
        child.send_signal(how)
        assert await child.ends() == 128 + how
        await until(lambda: not any(map(alive, started)), "the end of that")
        assert not list((tmp_path / "own").iterdir())
    finally:
        child.stop()
