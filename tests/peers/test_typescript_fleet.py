"""The TypeScript SDK's client, unmodified, on a fleet: three nodes behind a router."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import node_cache
from tests.conformance.serving import fleet_serving
from tests.fuzz.server import said

pytestmark = pytest.mark.npm

HALF_PAIRS = 40
SCRIPT = Path(__file__).with_name("book.mjs")
BOOKED = "Booked for Ana. Luna, saturday evening: a table for 4 in the garden, by candlelight. See you there!"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("typescript") / "booking"
    with fleet_serving(3, "framehold.examples.booking:mcp", folder) as url:
        yield url


@pytest.mark.parametrize(
    ("mode", "version"), [("auto", "2026-07-28"), ("2026-07-28", "2026-07-28"), ("legacy", "2025-11-25")]
)
def test_the_typescript_client_books_a_table_on_the_fleet(endpoint: str, mode: str, version: str) -> None:
    """Three questions, whichever way it negotiates; the legacy client gets them as requests on its stream."""
    packages = node_cache.ensure(timeout=240)
    done = subprocess.run(
        [node_cache.NODE, SCRIPT, packages, endpoint, mode], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "version": version,
        "asked": [["guests", "evening"], ["place", "candles"], ["name"]],
        "isError": False,
        "content": [{"type": "text", "text": BOOKED}],
    }


def test_texts_that_the_typescript_client_has_cut_inside_of_an_emoji_come_back(tmp_path: Path) -> None:
    """As arguments and as answers. JavaScript escapes half of a surrogate pair, and each retry finds its node."""
    packages, script = node_cache.ensure(timeout=240), SCRIPT.with_name("half_pairs.mjs")
    with fleet_serving(3, "tests.fuzz.server:mcp", tmp_path / "half-pairs") as url:
        command = (node_cache.NODE, script, packages, url, str(HALF_PAIRS))
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    cut = [f"{number} \ud83d" for number in range(HALF_PAIRS)]
    wanted = [said([text, {"n": 1, "word": f"{said(text)}\ud83d"}]) for text in cut]
    assert json.loads(done.stdout) == wanted
