"""The users run by locust itself, as from several machines: its exit code says whether calls came to their end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from framehold_loadtest.scenario import swarm

pytestmark = pytest.mark.load


def test_a_run_in_which_no_call_began_fails(tmp_path: Path) -> None:
    """Else a wrong address would be as green as a fleet."""
    words = swarm.command(tmp_path, "http://127.0.0.1:1", swarm.Crowd("steady", users=1, seconds=1.0))
    ran = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1, ran.stderr
    assert "0 calls ended, " in ran.stdout
    assert " 0 lost or never begun" not in ran.stdout
