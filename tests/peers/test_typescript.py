"""An unmodified TypeScript client and a tool that stops twice to ask and a third time to be sure."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conformance import node_cache
from tests.conformance.child import serving

pytestmark = pytest.mark.npm

SCRIPT = Path(__file__).with_name("three_rounds.mjs")
RESULT = "Ana: 3 nights in Lisbon, quiet room. The tool was entered 1 time(s)."


@pytest.fixture(scope="module")
def packages() -> Path:
    """The folder with Node and its packages; installed on first use."""
    return node_cache.ensure(timeout=240)


def test_the_typescript_client_completes_a_call_of_three_rounds(packages: Path, tmp_path: Path) -> None:
    """Each question arrives knowing the answer before it, and the result is that of one entry into the tool."""
    with serving("tests.peers.trip_server:app", tmp_path / "server.log", timeout=30) as url:
        done = subprocess.run(
            [node_cache.NODE, SCRIPT, packages, url], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "asked": [
            {"message": "Where to, Ana?", "fields": ["place"]},
            {"message": "How many nights in Lisbon?", "fields": ["nights"]},
            {"message": "A quiet room?", "fields": ["quiet"]},
        ],
        "isError": False,
        "content": [{"type": "text", "text": RESULT}],
    }
