"""One client program, unchanged, against servers of both eras."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.kit.processes import ROOT

pytestmark = pytest.mark.npm

PROGRAM = ROOT / "examples" / "client_dual_path.py"
SAID = """\
? A table at Luna, with pleasure. Tell me about your party.
  guests: 4
  evening: saturday
? For 4 on saturday there is a choice of tables.
  place: garden
  candles: True
? Luna, saturday evening: a table for 4 in the garden, by candlelight. Shall I book it?
  name: Ana
= Booked for Ana. Luna, saturday evening: a table for 4 in the garden, by candlelight. See you there!
"""


@pytest.mark.parametrize("server", ["endpoint", "of_2025"])
def test_the_dual_path_client_runs_unchanged_against_a_server_of_either_era(
    server: str, request: pytest.FixtureRequest
) -> None:
    """A fleet that speaks 2026-07-28 and a server that knows nothing later than 2025-11-25: the same words, the same
    booking."""
    url = request.getfixturevalue(server)
    done = subprocess.run([sys.executable, PROGRAM, url], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, SAID), done.stderr
