"""`framehold call --prove`: the records of a fleet prove that one node ran a call, and that no part of it ran twice."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from framehold_cli.call import proof
from framehold_fleet.models.calls import CallView
from tests.cli.processes import Up, up
from tests.kit.processes import DEADLINE, ROOT, RUN, environment, finished

pytestmark = pytest.mark.anyio

SERVER = """
from pathlib import Path
import framehold
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel
class Word(BaseModel):
    word: str
mcp = MCPServer("shop")
@mcp.tool()
@framehold.reentrant
async def buy(ledger: str, ctx: Context) -> str:
    "Ask twice, and charge."
    first = await ctx.elicit("What?", Word)
    second = await ctx.elicit("Which card?", Word)
    return await framehold.once("charge", charge, ledger, f"{first.data.word} by {second.data.word}")
def charge(ledger: str, what: str) -> str:
    with open(ledger, "a") as file:
        print(what, file=file)
    return what
@mcp.tool()
async def quiet() -> str:
    "Ask nothing."
    return "nothing to ask"
@mcp.tool()
@framehold.options(strategy="replay")
@framehold.reentrant
async def forgetful(ctx: Context) -> str:
    "Wait in its token."
    return (await ctx.elicit("What?", Word)).data.word
"""


@pytest.fixture(scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Up]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.py").write_text(SERVER)
    async with up(folder, "--port", "0", "--nodes", "2", str(folder / "shop.py")) as running:
        await running.hears("Ctrl-C stops everything.")
        yield running


def begin(fleet: Up, *words: str, **settings: str) -> subprocess.Popen[str]:
    """Start a script that runs `framehold call --prove`, as the user who runs the fleet."""
    return subprocess.Popen(
        [*RUN, "call", *words, "--url", f"{fleet.url}/mcp", "--prove"],
        cwd=ROOT,
        env=environment(**{**fleet.beside, **settings}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


async def ended(child: subprocess.Popen[str], answers: str) -> tuple[int, str, str]:
    out, err = await asyncio.to_thread(child.communicate, answers, DEADLINE)
    return child.returncode, out, err


async def test_a_call_on_one_node_is_proved(fleet: Up, tmp_path: Path) -> None:
    """The last round was sent twice, and the card was charged once."""
    ledger = tmp_path / "ledger"
    code, out, err = await ended(begin(fleet, "buy", f"ledger={ledger}"), "tea\nvisa\n")
    assert (code, err) == (0, ""), err
    last = out.splitlines()[-1]
    assert last.startswith(("proved: 3 rounds, all on node-1; ", "proved: 3 rounds, all on node-2; ")), out
    assert ledger.read_text() == "tea by visa\n"


async def test_what_left_no_record_is_not_proved(fleet: Up) -> None:
    """Without a record the command fails, and says why."""
    for tool, why in (("quiet", "quiet asked nothing"), ("forgetful", "calls of forgetful wait in their tokens")):
        code, _, err = await ended(begin(fleet, tool), "tea\n")
        assert code == 1 and f"framehold: not proved: {why}" in err, err


async def test_who_may_not_look_calls_nothing(fleet: Up, tmp_path: Path) -> None:
    """A missing admin token is found before the tool is called. The token of the shell is for `--api`, and each way to
    give it that the error names is one."""
    stranger = {"XDG_RUNTIME_DIR": "", "TMPDIR": str(tmp_path), "FRAMEHOLD_ADMIN_TOKEN": fleet.token}
    code, out, err = await ended(begin(fleet, "quiet", **stranger), "")
    assert (code, out) == (2, ""), out
    do = "give --admin-token, or --api and FRAMEHOLD_ADMIN_TOKEN"
    assert err.endswith(f"wants its admin token for --prove; nothing was called; {do}\n")
    for words in (("--admin-token", fleet.token), ("--api", fleet.url)):
        code, _, err = await ended(begin(fleet, "quiet", *words, **stranger), "")
        assert code == 1 and "not proved: quiet asked nothing" in err, err


async def test_a_call_that_was_handed_off_is_not_proved(fleet: Up, tmp_path: Path) -> None:
    """The call charged once, but ran on two nodes, and the command says so."""
    ledger = tmp_path / "ledger"
    child = begin(fleet, "buy", f"ledger={ledger}")
    assert child.stdin is not None and child.stdout is not None
    asked = await asyncio.to_thread(child.stdout.readline) + await asyncio.to_thread(child.stdout.readline)
    node = "node-1" if "node-1" in asked else "node-2"
    drained = await asyncio.to_thread(finished, [*RUN, "drain", node, "--url", fleet.url], **fleet.beside)
    assert drained.returncode == 0, drained.stderr
    code, _, err = await ended(child, "tea\nvisa\n")
    other = {"node-1": "node-2", "node-2": "node-1"}[node]
    assert code == 1 and f"not proved: it ran on {node} and then on {other}; its epoch is 2: " in err, err
    assert ledger.read_text() == "tea by visa\n"


def view(**changed: Any) -> CallView:
    steps = [
        {"step": "parked", "round": 1, "epoch": 1, "node_id": "n1", "at": 1.0},
        {"step": "finished", "round": 1, "epoch": 1, "node_id": "n1", "at": 2.0},
    ]
    made = {
        "call_id": "0123456789abcdef0123456789abcdef",
        "record": "done",
        "tool": "buy",
        "method": "tools/call",
        "reentrant": True,
        "node_id": "n1",
        "epoch": 1,
        "round": 1,
        "attempts": 0,
        "trail": steps,
    }
    return CallView.model_validate({**made, **changed})


@pytest.mark.parametrize(
    ("before", "after", "same", "says"),
    [
        (view(), view(), True, []),
        (view(record="open"), view(), True, ["its record says open, not done"]),
        (view(trail=()), view(trail=()), True, ["its steps are not kept"]),
        (view(), view(), False, ["its last round, sent again, got another result"]),
        (view(), view(trail=view().trail[:1]), True, ["its last round, sent again, ran again"]),
        (view(epoch=2), view(epoch=2), True, ["its epoch is 2: its handler may have been entered more than once"]),
    ],
)
def test_what_speaks_against_a_proof(before: CallView, after: CallView, same: bool, says: list[str]) -> None:
    """Each fault has a text of its own."""
    assert proof.faults(before, after, same) == says
