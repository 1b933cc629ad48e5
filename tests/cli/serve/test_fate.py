"""What becomes of a dead node's calls, in words that are true for the served handlers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import pytest
from mcp.server.mcpserver.resolve import Resolve

from framehold_cli.local import check
from framehold_cli.serve.fate import Fate, OpenCalls
from framehold_cli.serve.handler_counts import fate_of
from tests.kit.processes import ROOT

pytestmark = pytest.mark.anyio

ALL, NONE, SOME = Fate(2, 2, 0, 5), Fate(2, 0, 0, 5), Fate(2, 1, 1, 5)
REPLAYED, UNKNOWN = Fate(2, 2, 2, 5), Fate(0, 0, 0, 2.5)
KEPT, PARTLY = Fate(2, 2, 0, 5, kept=2), Fate(2, 1, 0, 5, kept=1)
RETURNED, MIXED = Fate(0, 0, 0, 5, returning=2), Fate(1, 0, 0, 5, returning=1)
LOST = "calls parked on it in an await are lost"
BOTH = f"calls of re-entrant handlers go on; other {LOST}"
THEIRS = "calls parked in an await are lost"
SPLIT = f"{THEIRS}, but those that were and are re-entrant and ask the same"
REPLAY = "open calls are replayed, and fail where the new code asks otherwise"


@pytest.mark.parametrize(
    ("fate", "says"),
    [
        (ALL, "calls parked on it go on once its lease (5 s) has run out"),
        (NONE, LOST),
        (MIXED, LOST),
        (RETURNED, "calls whose questions were returned go on at any node"),
        (SOME, BOTH),
        (UNKNOWN, BOTH),
        (REPLAYED, "calls are replayed from their tokens"),
    ],
)
def test_a_death(fate: Fate, says: str) -> None:
    """The fate in a few words, for the line that reports the death."""
    assert fate.death() == says


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (ALL, ALL, REPLAY),
        (REPLAYED, ALL, REPLAY),
        (KEPT, ALL, "open calls go on with the code that they began with, new calls run the new code"),
        (KEPT, NONE, "open calls go on with the code that they began with, new calls run the new code"),
        (PARTLY, ALL, "open calls whose code is kept go on with it; other calls parked in an await are lost"),
        (ALL, NONE, THEIRS),
        (NONE, ALL, THEIRS),
        (MIXED, RETURNED, THEIRS),
        (RETURNED, RETURNED, "open calls go on with the new code"),
        (ALL, SOME, SPLIT),
        (UNKNOWN, ALL, SPLIT),
    ],
)
def test_a_reload(before: Fate, after: Fate, says: str) -> None:
    """Calls are replayed only if the old code and the new code are re-entrant."""
    assert before.reload(after) == says


def test_a_reload_says_how_many_calls_are_open() -> None:
    """The number stands beside the calls that it counts, and nowhere if it is not known."""
    kept = "go on with the code that they began with, new calls run the new code"
    assert KEPT.reload(ALL, OpenCalls(50, 0)) == f"open calls (50) {kept}"
    assert NONE.reload(ALL, OpenCalls(50, 50)) == f"{THEIRS} (50)"
    assert KEPT.reload(ALL, OpenCalls(0, 0)) == NONE.reload(ALL, OpenCalls(0, 0)) == "no call is open"
    unmarked = "open calls of tools without @framehold.reentrant are lost"
    assert PARTLY.reload(ALL, OpenCalls(3, 1)) == f"open calls (2) {kept}; {unmarked} (1)"
    assert PARTLY.reload(ALL, OpenCalls(3, 3)) == f"{unmarked} (3)"


@pytest.mark.parametrize(
    ("fate", "says"),
    [
        (ALL, "(5 s) has run out: since the tool is marked\n@framehold.reentrant, it is entered again on another node"),
        (ALL, "The call goes on once the dead one's lease (5 s) has run out: "),
        (NONE, "If the tool awaits its answer, the call is lost and tells you so"),
        (SOME, "If the tool awaits its answer and is marked @framehold.reentrant, the call goes on\nonce the dead"),
        (UNKNOWN, "lease (2.5 s) has run out.\nIf it isn't marked, the call is lost and tells you so"),
        (UNKNOWN, "Where a tool returned its question, the call goes on at any node: none holds anything of it.\n"),
        (MIXED, "Where a tool returned its question, the call goes on at any node: none holds anything of it.\nIf the"),
        (
            RETURNED,
            "Where a tool returned its question, the call goes on at any node: none holds anything of it.\nCalls",
        ),
        (REPLAYED, "The call goes on from its token: no node holds anything of it."),
    ],
)
def test_the_hint(fate: Fate, says: str) -> None:
    """No line is wider than a terminal. A fleet of one node has no other nodes to mention."""
    assert says in fate.hint(3)
    assert "Calls on other nodes" in fate.hint(3) and "other" not in fate.hint(1)
    assert all(len(line) <= 125 for nodes in (1, 3) for line in fate.hint(nodes).splitlines())


async def test_the_child_that_imports_target_tells_it(tmp_path: Path) -> None:
    """The child reports TARGET's file, and uses the settings that it gets."""
    (tmp_path / "two words.py").write_text(
        "import framehold\nfrom mcp.server import MCPServer\nmcp = MCPServer('m')\nprint('imported')\n"
        "@mcp.tool()\n@framehold.options(strategy='replay')\n@framehold.reentrant\nasync def one(): ...\n"
        "@mcp.tool()\nasync def two(): ...\n"
        "@mcp.tool()\ndef three(): ...\n"
    )
    target = str(tmp_path / "two words.py")
    for lease in (5.0, 1.5):
        found = await check.in_child(target, {"FRAMEHOLD_LEASE_TTL": str(lease)})
        assert found == check.Checked(await asyncio.to_thread(Path(target).resolve), Fate(2, 1, 1, lease, kept=1))


async def test_a_tool_that_returns_its_questions_loses_none() -> None:
    """A tool whose parameters the SDK asks for loses no call either. Any other tool may await its answer."""
    for option, returning in (("a", 1), ("b", 0)):
        found = await check.in_child(str(ROOT / f"examples/options/option_{option}.py"), {})
        assert (found.fate.returning, found.fate.asking) == (returning, 1 - returning), option

    async def weather(units: Annotated[str, Resolve(lambda: "C")]) -> str:
        return units

    async def broken(units: "Nowhere") -> str:  # type: ignore[name-defined]  # noqa: F821, UP037
        return ""

    assert fate_of([weather, broken], "hold", 5) == Fate(1, 0, 0, 5, returning=1)
