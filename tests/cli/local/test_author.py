"""`framehold up` as an author uses it: what runs is visible, and everything can be listed, called and looked into."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import Up, up
from tests.kit.client import Caller
from tests.kit.processes import RUN, finished, until

pytestmark = pytest.mark.anyio

SERVER = '''
import decimal
import framehold
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel
class Room(BaseModel):
    room: str
mcp = MCPServer("shop")
@mcp.tool()
@framehold.reentrant
async def book(hotel: str, ctx: Context, stars: int = 3) -> str:
    """Book a room.

    A second line."""
    async def paid() -> dict[str, int]:
        return {"receipt": 7}
    async def price() -> decimal.Decimal:
        return decimal.Decimal("3.20")
    await framehold.once("pay", paid)
    await framehold.once("price", price)
    room = await ctx.elicit("Which room?", Room)
    await ctx.elicit("Sure?", Room)
    return room.data.room
@mcp.tool()
async def raises() -> int:
    return 1 // 0
@mcp.prompt()
async def complaint(order: str, ctx: Context, tone: str = "calm") -> str:
    about = await ctx.elicit("About what?", Room)
    return f"Complain {tone} about {order}: {about.data.room}"
@mcp.resource("shop://hours")
def hours() -> str:
    return "9 to 5"
@mcp.resource("shop://rooms/{name}")
async def room(name: str, ctx: Context) -> str:
    return f"{name}: {(await ctx.elicit('Really?', Room)).action}"
'''


@pytest.fixture(scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Up]:
    """A fleet of one node at a free port. Each test leaves it usable for the next one."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "shop.py").write_text(SERVER)
    arguments = (str(folder / "shop.py"), "--port", "0", "--nodes", "1")
    async with up(folder, *arguments, FRAMEHOLD_LEASE_TTL="1") as running:
        await running.hears("Ctrl-C stops everything.")
        yield running
        assert await running.end() == 0


async def told(fleet: Up, *words: str, answers: str = "") -> subprocess.CompletedProcess[str]:
    """A command of the user who runs the fleet, without an address."""
    return await asyncio.to_thread(finished, [*RUN, *words], answers=answers, **fleet.beside)


def found_line(fleet: Up) -> str:
    """The line that names the fleet which was found."""
    return f"framehold: the fleet at {fleet.url}, where framehold up serves {_target(fleet)}\n"


def _target(fleet: Up) -> str:
    return str(Path(fleet.beside["XDG_RUNTIME_DIR"]) / "shop.py")


async def shows(fleet: Up, pattern: str) -> None:
    """Wait until the fleet's terminal shows a line that matches. The names of tools are in a column, which grows."""
    await until(lambda: re.search(rf"(?m)^{pattern}", fleet.said), f"a line {pattern} in:\n{fleet.said}")


ENDS = r"(\d+ ms|<1 ms|\d\.\d s)  node-1  [0-9a-f]{8}\n"
"""How a line of a round ends: what it took, its node, its call."""


async def test_each_round_is_a_line(fleet: Up) -> None:
    """The command finds the fleet by itself, names it, and answers; the fleet's terminal shows three rounds."""
    done = await told(fleet, "call", "book", "hotel=Luna", answers="blue\nyes\n")
    assert done.returncode == 0 and done.stdout.endswith("blue\n") and done.stderr == found_line(fleet), done
    await shows(fleet, rf"book +resumed  finished  {ENDS}")
    await shows(fleet, rf"book +asked 'Which room\?'  parked  {ENDS}")
    await shows(fleet, rf"book +resumed, asked 'Sure\?'  parked  {ENDS}")
    assert "blue" not in fleet.said and "\x1b" not in fleet.said


async def test_a_failed_call_says_where_its_cause_stands(fleet: Up) -> None:
    """Its caller gets the class, the place, and the author's line; the fleet's terminal the class and the place."""
    number = SERVER.splitlines().index("    return 1 // 0") + 1
    done = await told(fleet, "call", "raises")
    assert done.returncode == 1 and "Error executing tool raises" in done.stderr
    assert done.stderr.endswith(
        f"framehold: ZeroDivisionError at shop:raises:{number}, on node-1; the output of framehold up has its "
        f"traceback\n  shop.py:{number}  return 1 // 0\n"
    )
    await shows(fleet, rf"raises +failed: ZeroDivisionError at shop:raises:{number}  {ENDS}")


async def test_a_program_gets_one_document(fleet: Up) -> None:
    """With the class and the place of what it raised."""
    done = await told(fleet, "call", "--json", "raises")
    document = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (1, "")
    assert (document["outcome"], document["failure"]["error"]) == ("tool_error", "ZeroDivisionError")
    assert document["node"] == "node-1" and re.fullmatch("[0-9a-f]{8}", document["call"])


async def test_a_program_whose_call_is_not_made_gets_one_line(fleet: Up) -> None:
    done = await told(fleet, "call", "--json", "nosuch")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done


async def test_all_is_listed_with_its_marks(fleet: Up) -> None:
    done = await told(fleet, "list")
    assert done.stdout == (
        "TOOLS   TAKES           MARKS\n"
        "book    hotel, [stars]  re-entrant, asks  Book a room.\n"
        "raises\n\n"
        "PROMPTS    TAKES          MARKS\n"
        "complaint  order, [tone]  asks\n\n"
        "RESOURCES     MARKS\n"
        "shop://hours\n\n"
        "TEMPLATES            MARKS\n"
        "shop://rooms/{name}  asks\n"
    )
    data = json.loads((await told(fleet, "list", "-o", "json")).stdout)
    assert [(one["name"], one["reentrant"], one["asks"]) for one in data["tools"]] == [
        ("book", True, True),
        ("raises", False, False),
    ]
    assert data["prompts"][0]["inputSchema"]["required"] == ["order"]
    assert data["templates"][0]["uriTemplate"] == "shop://rooms/{name}" and data["resources"][0]["asks"] is False


async def test_a_stranger_s_list_has_no_marks(fleet: Up, tmp_path: Path) -> None:
    """Who has no admin token is told so. The list itself is the server's, and open."""
    command = [*RUN, "list", "--url", fleet.url]
    done = await asyncio.to_thread(finished, command, XDG_RUNTIME_DIR=str(tmp_path))
    assert done.returncode == 0 and "re-entrant" not in done.stdout
    assert "The marks are not known: they come from the router, which wants its admin token" in done.stdout


async def test_prompts_and_resources_are_called(fleet: Up) -> None:
    """Their questions are answered like those of a tool."""
    done = await told(fleet, "call", "--prompt", "complaint", "order=B1", answers="noise\n")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "[node-1, ring] user: Complain calm about B1: noise")
    done = await told(fleet, "call", "--resource", "shop://hours")
    assert done.stdout == "\n[node-1, start] 9 to 5\n"
    done = await told(fleet, "call", "--resource", "shop://rooms/12", answers="x\n")
    assert "Really?" in done.stdout and done.stdout.endswith("12: accept\n")


async def test_the_journal_is_shown_in_plain_text(fleet: Up) -> None:
    """Questions, answers and results, while the call is open. A pickle is not loaded."""
    async with Caller(f"{fleet.url}/mcp") as caller:
        arguments = {"hotel": "Luna"}
        asked = await caller.call("book", arguments=arguments)
        asked = await caller.retry("book", asked.token, asked.accept(room="the blue one"), arguments=arguments)
        call = asked.token.split(".")[1]
        done = await told(fleet, "journal", call[:8])
        assert done.returncode == 0, done
        rows = [line.split(maxsplit=4) for line in done.stdout.splitlines()[-7:]]
        assert [row[2] for row in rows if row[2] in ("ask", "answer")] == ["ask", "answer", "ask"]
        assert "Which room?" in done.stdout and '"the blue one"' in done.stdout and '{"receipt": 7}' in done.stdout
        assert "it is not loaded" in done.stdout and "3.20" not in done.stdout
        entries = json.loads((await told(fleet, "journal", call, "-o", "json")).stdout)["entries"]
        answer = next(one for one in entries if one["kind"] == "answer")
        assert answer["value"] == {"action": "accept", "content": {"room": "the blue one"}}
        await caller.retry("book", asked.token, asked.accept(room="yes"), arguments=arguments)
        done = await told(fleet, "journal", call)
        assert "the blue one" in done.stdout and "its journal is dropped when it has ended" in done.stdout


async def test_a_journal_is_for_those_who_have_the_keys(fleet: Up, tmp_path: Path) -> None:
    """Another user has neither the store's place nor its keys. A fleet or a store elsewhere is not read at all."""
    async with Caller(f"{fleet.url}/mcp") as caller:
        call = (await caller.call("book", arguments={"hotel": "Luna"})).token.split(".")[1]
    file = next(Path(fleet.beside["XDG_RUNTIME_DIR"]).glob("framehold-*.json"))
    store = json.loads(file.read_text())["store_url"]
    stranger: dict[str, Any] = {"XDG_RUNTIME_DIR": str(tmp_path), "FRAMEHOLD_ADMIN_TOKEN": fleet.token}
    here = ("journal", call, "--url", fleet.url)
    for words, settings, why in (
        (("journal", call, "--url", "http://10.0.0.1:1"), {}, "http://10.0.0.1:1 is on another machine; "),
        (here, {}, "the store of this fleet is not known; "),
        ((*here, "--store", store), {}, "FRAMEHOLD_KEYS is not set in this shell; "),
        ((*here, "--store", "redis://u:secret@10.0.0.1"), {}, "the store redis://10.0.0.1:6379 is not on this machine"),
    ):
        done = await asyncio.to_thread(finished, [*RUN, *words], **stranger, **settings)
        assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith(f"framehold: {why}"), done
        assert "no value was read" in done.stderr and "secret" not in done.stderr
    command = [*RUN, *here, "--store", store]
    done = await asyncio.to_thread(finished, command, FRAMEHOLD_KEYS="0" * 32, **stranger)
    assert done.returncode == 0 and "(sealed with other keys than these)" in done.stdout
    assert "Which room?" not in done.stdout


async def test_a_takeover_is_a_line(fleet: Up) -> None:
    """The node is killed while a question is open; its next life carries the call on."""
    async with Caller(f"{fleet.url}/mcp") as caller:
        arguments = {"hotel": "Luna"}
        asked = await caller.call("book", arguments=arguments)
        os.kill(fleet.node("node-1")[1], signal.SIGKILL)
        await fleet.hears("node-1 is back (pid ")
        await caller.retry("book", asked.token, asked.accept(room="x"), arguments=arguments)
    await shows(fleet, rf"book +taken over, asked 'Sure\?'  parked  {ENDS}")


async def test_a_quiet_fleet_shows_no_rounds(tmp_path: Path) -> None:
    """What the author's code prints is shown all the same."""
    (tmp_path / "shop.py").write_text(SERVER.replace("return 1 // 0", "print('printed', flush=True); return 1"))
    async with up(tmp_path, str(tmp_path / "shop.py"), "--port", "0", "--nodes", "1", "--quiet") as running:
        await running.hears("Ctrl-C stops everything.")
        async with Caller(f"{running.url}/mcp") as caller:
            assert (await caller.call("raises")).text == "1"
        text = await running.hears("node-1 | printed\n")
        assert "raises  finished" not in text
        assert await running.end() == 0
