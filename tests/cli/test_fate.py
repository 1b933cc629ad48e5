"""What becomes of a dead node's calls, in words that are true of the handlers that are served."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from framehold.cli import check
from framehold.cli.fate import Fate

pytestmark = pytest.mark.anyio

ALL, NONE, SOME = Fate(2, 2, 0, 5), Fate(2, 0, 0, 5), Fate(2, 1, 1, 5)
REPLAYED, UNKNOWN = Fate(2, 2, 2, 5), Fate(0, 0, 0, 2.5)
BOTH = "calls parked on it are lost, but those of re-entrant handlers"


@pytest.mark.parametrize(
    ("fate", "says"),
    [
        (ALL, "calls parked on it go on once its lease (5 s) has run out"),
        (NONE, "calls parked on it are lost"),
        (SOME, BOTH),
        (UNKNOWN, BOTH),
        (REPLAYED, "calls are replayed from their tokens"),
    ],
)
def test_a_death(fate: Fate, says: str) -> None:
    """In a few words, for the line that tells it."""
    assert fate.death() == says


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (ALL, ALL, "open calls are replayed, and fail where the new code asks otherwise"),
        (REPLAYED, ALL, "open calls are replayed, and fail where the new code asks otherwise"),
        (ALL, NONE, "calls parked on them are lost"),
        (NONE, ALL, "calls parked on them are lost"),
        (ALL, SOME, "calls parked on them are lost, but those that were and are re-entrant and ask the same"),
        (UNKNOWN, ALL, "calls parked on them are lost, but those that were and are re-entrant and ask the same"),
    ],
)
def test_a_reload(before: Fate, after: Fate, says: str) -> None:
    """Re-entry needs the promise of the old code and of the new."""
    assert before.reload(after) == says


@pytest.mark.parametrize(
    ("fate", "says"),
    [
        (ALL, "The call goes on once the dead one's lease (5 s) has run out: @framehold.reentrant"),
        (NONE, "The call is lost and tells you so"),
        (SOME, "If its tool is marked @framehold.reentrant, the call goes on once"),
        (UNKNOWN, "lease (2.5 s) has run out.\nIf not, it is lost and tells you so"),
        (REPLAYED, "The call goes on from its token: no node holds anything of it."),
    ],
)
def test_the_hint(fate: Fate, says: str) -> None:
    """Before someone kills a node: no line is too long for a terminal, and one node alone has no others."""
    assert says in fate.hint(3)
    assert "Calls on other nodes" in fate.hint(3) and "other" not in fate.hint(1)
    assert all(len(line) <= 125 for nodes in (1, 3) for line in fate.hint(nodes).splitlines())


async def test_the_child_that_imports_target_tells_it(tmp_path: Path) -> None:
    """With TARGET's file, and the settings that it sees."""
    (tmp_path / "two words.py").write_text(
        "import framehold\nfrom mcp.server import MCPServer\nmcp = MCPServer('m')\nprint('imported')\n"
        "@mcp.tool()\n@framehold.hold(strategy='replay')\n@framehold.reentrant\nasync def one(): ...\n"
        "@mcp.tool()\nasync def two(): ...\n"
        "@mcp.tool()\ndef three(): ...\n"
    )
    target = str(tmp_path / "two words.py")
    for lease in (5.0, 1.5):
        found = await check.in_child(target, {"FRAMEHOLD_LEASE_TTL": str(lease)})
        assert found == check.Checked(await asyncio.to_thread(Path(target).resolve), Fate(2, 1, 1, lease))
