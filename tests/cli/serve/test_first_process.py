"""The first process of a container. Linux does not deliver signals to it that it has no handler for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.kit.nodes import KEY
from tests.kit.processes import DEADLINE, until

_OWN_PIDS = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]


async def test_a_node_that_is_told_to_end_while_its_server_is_imported_ends(tmp_path: Path) -> None:
    begun, server = tmp_path / "begun", tmp_path / "slow.py"
    server.write_text(f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(600)\n")
    command = [*_OWN_PIDS, sys.executable, "-m", "framehold", "node", str(server), "--port", "0"]
    with subprocess.Popen(command, env={"FRAMEHOLD_KEYS": KEY, "PATH": "/usr/bin:/bin"}) as outer:
        try:
            await until(begun.exists, "the import of the server")
            (first,) = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
            os.kill(int(first), signal.SIGTERM)
            assert outer.wait(DEADLINE) == 128 + signal.SIGTERM
        finally:
            outer.kill()
