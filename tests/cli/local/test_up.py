"""`framehold up` as a user runs it: a table, commands that work as printed, nodes that come back, and a clean end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from framehold.cli.local.up import Signals
from tests.cli.processes import Up, up
from tests.processes import ROOT, RUN, alive, descendants, finished, stat, until
from tests.wire import Caller

pytestmark = pytest.mark.anyio

SERVER = """
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel
class Word(BaseModel):
    word: str
mcp = MCPServer("words")
@mcp.tool()
async def echo(text: str, times: int, ctx: Context) -> str:
    "Ask for a word."
    answer = await ctx.elicit(f"it's {text}: which word?", Word)
    return f"version 1: {answer.action}"
"""


@pytest.fixture(scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Up]:
    """A fleet shared by the tests that don't change it."""
    async with up(tmp_path_factory.mktemp("fleet"), "--port", "0", "--nodes", "2") as running:
        await running.hears("Ctrl-C stops everything.")
        yield running
        assert await running.end() == 0
        assert running.said.endswith("\nstopped\n")


def shell(command: str, answers: str = "", **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a pasted command line in a shell."""
    return finished(["sh", "-c", command], answers=answers, **settings)


def framehold(*arguments: str, cwd: Path = ROOT, **settings: str) -> subprocess.CompletedProcess[str]:
    return finished([*RUN, *arguments], cwd, **settings)


async def test_the_table(fleet: Up) -> None:
    """The table has all addresses and what is kept, once and in aligned columns. Nothing else is printed."""
    lines = fleet.said.splitlines()
    assert lines[0] == "starting 2 nodes, a router and a store ..."
    assert lines[2] == "framehold is up: 2 nodes serve the booking example"
    names = ("router", "dashboard", "node-1", "node-2")
    table = [line for line in lines if line.startswith(tuple(f"  {name} " for name in (*names, "store")))]
    assert [line.split()[0] for line in table] == [*names, "store"]
    assert len({line.index("http") for line in table[:-1]}) == 1
    assert "gone when you stop" in table[-1]
    told = [line.split(maxsplit=1) for line in lines if fleet.token in line]
    assert told == [["dashboard", f"{fleet.url}/dashboard#token={fleet.token}"], ["admin", f"token  {fleet.token}"]]
    assert " | " not in fleet.said and "\x1b" not in fleet.said
    for name in ("node-1", "node-2"):
        address, pid = fleet.node(name)
        assert alive(pid)
        assert httpx2.get(f"{address}/readyz").status_code == 200
    assert "<title>Framehold</title>" in httpx2.get(f"{fleet.url}/dashboard").text
    assert httpx2.get(f"{fleet.url}/api/v1/overview").status_code == 401


async def test_the_curl_line_is_round_one(fleet: Up) -> None:
    """The printed curl command works in a shell. It gets the first question and a token."""
    told = await asyncio.to_thread(shell, fleet.pasted("curl"))
    assert told.stderr == "", told.stderr
    result = json.loads(re.sub(r"(?m)^data: |^(event|id|:).*$", "", told.stdout))["result"]
    assert result["resultType"] == "input_required" and result["requestState"].startswith("h1.")
    [question] = result["inputRequests"].values()
    assert "Luna" in question["params"]["message"]


async def test_the_call_line_asks_three_questions(fleet: Up) -> None:
    """The printed command works in a shell. Each question shows its node, which is the same for all three."""
    line = fleet.pasted("framehold call")
    told = await asyncio.to_thread(shell, line, "4\nsaturday\n\nn\nAda\n")
    assert (told.returncode, told.stderr) == (0, ""), told
    assert "Booked for Ada. Luna, saturday evening: a table for 4 by the window, without candles" in told.stdout
    nodes = re.findall(r"(?m)^\[(node-\d)", told.stdout)
    assert len(nodes) == 4 and len(set(nodes)) == 1


async def test_the_nodes_line_lists_them(fleet: Up) -> None:
    """The printed command works in a shell."""
    told = await asyncio.to_thread(shell, fleet.pasted("framehold nodes"), **fleet.beside)
    assert [line.split()[:2] for line in told.stdout.splitlines()[1:]] == [["node-1", "live"], ["node-2", "live"]]


async def test_the_hint_names_a_node_to_kill(fleet: Up) -> None:
    """The hint has a pid of the table, and says what happens to the call: the example's tool is re-entrant."""
    hint = f"(its pid is above; node-1: kill -9 {fleet.node('node-1')[1]}) and answer.\n"
    assert hint + "The call goes on once the dead one's lease (5 s) has run out: @" in fleet.said


async def test_a_server_without_tools(tmp_path: Path) -> None:
    """Without tools there is no hint to kill a node during a call."""
    (tmp_path / "bare.py").write_text("from mcp.server import MCPServer\nmcp = MCPServer('bare')")
    async with up(tmp_path, str(tmp_path / "bare.py"), "--port", "0", "--nodes", "1") as running:
        said = await running.hears("Ctrl-C stops everything.")
        assert "It shows no tools." in said and "kill -9" not in said and "1 node, a router" in said
        assert await running.end() == 0


async def test_nodes_and_ring(fleet: Up) -> None:
    """Both commands print the router's reply, as JSON and as columns."""
    where = ("--url", fleet.url)
    told = await asyncio.to_thread(framehold, "nodes", "-o", "json", *where, **fleet.beside)
    found = json.loads(told.stdout)
    assert {one["node_id"]: one["pid"] for one in found} == {name: fleet.node(name)[1] for name in ("node-1", "node-2")}
    ring = json.loads((await asyncio.to_thread(framehold, "ring", "-o", "json", *where, **fleet.beside)).stdout)
    assert sum(one["share"] for one in ring["nodes"]) == pytest.approx(1)
    for command, head in (("nodes", "NODE    STATE"), ("ring", "NODE    STATE")):
        lines = (await asyncio.to_thread(framehold, command, *where, **fleet.beside)).stdout.splitlines()
        assert lines[0].startswith(head) and [line.split()[0] for line in lines[1:3]] == ["node-1", "node-2"]


async def test_the_admin_token_is_needed_and_found(fleet: Up, tmp_path: Path) -> None:
    """Commands of the same user on this machine find the token. A user without the token and its file is told what to
    do."""
    [file] = Path(fleet.beside["XDG_RUNTIME_DIR"]).glob("*.token")
    assert file.read_text() == fleet.token and file.stat().st_mode & 0o777 == 0o600
    where = ("status", "--url", fleet.url)
    assert (await asyncio.to_thread(framehold, *where, **fleet.beside)).returncode == 0
    stranger = {"XDG_RUNTIME_DIR": str(tmp_path)}
    told = await asyncio.to_thread(framehold, *where, **stranger)
    assert told.returncode == 3 and "401: " in told.stderr and "give --token or FRAMEHOLD_ADMIN_TOKEN" in told.stderr
    told = await asyncio.to_thread(framehold, *where, FRAMEHOLD_ADMIN_TOKEN=fleet.token, **stranger)
    assert told.returncode == 0


async def test_no_secret_is_on_a_command_line_or_shown(fleet: Up) -> None:
    """Children get the keys and the admin token in their environment. Only the table shows the token."""
    _, pid = fleet.node("node-1")
    told = dict(line.split("=", 1) for line in Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in line)
    for name in ("FRAMEHOLD_KEYS", "FRAMEHOLD_ADMIN_TOKEN"):
        assert len(told[name]) >= 32
        assert fleet.said.count(told[name]) == (2 if name == "FRAMEHOLD_ADMIN_TOKEN" else 0)
        for one in fleet.seen:
            if alive(one):
                assert told[name].encode() not in Path(f"/proc/{one}/cmdline").read_bytes()


async def test_each_child_has_a_session_of_its_own(fleet: Up) -> None:
    """A terminal's Ctrl-C reaches only the supervisor."""
    children = [pid for pid in fleet.seen if stat(pid)[1:2] == [str(fleet.pid)]]
    assert len(children) >= 4
    assert all(os.getsid(pid) == pid for pid in children)


async def test_a_killed_node_is_told_and_comes_back(tmp_path: Path) -> None:
    """A killed node restarts under its name, at its address, and serves again."""
    async with up(tmp_path, "--port", "0", "--nodes", "2", FRAMEHOLD_LEASE_TTL="1") as running:
        await running.hears("Ctrl-C stops everything.")
        address, pid = running.node("node-1")
        os.kill(pid, signal.SIGKILL)
        told = "calls parked on it go on once its lease (1 s) has run out"
        await running.hears(f"node-1 died (SIGKILL); {told}; starting it again in 0.5 s\n")
        said = await running.hears("node-1 is back (pid ")
        assert f"(pid {pid})" not in said
        assert httpx2.get(f"{address}/readyz").status_code == 200
        assert await running.end(signal.SIGTERM) == 0
        assert not list(tmp_path.glob("framehold-*"))


async def test_ctrl_c_during_the_start(tmp_path: Path) -> None:
    """At any step of the start Ctrl-C leaves no process and prints no error."""
    for count in (1, 3):
        async with up(tmp_path, "--port", "0", "--nodes", "2") as running:

            def enough(running: Up = running, count: int = count) -> bool:
                running.seen |= descendants(running.pid)
                return len(running.seen) >= count

            await until(enough, "its children")
            assert await running.end() == 0
            assert "Traceback" not in running.said and "up:" not in running.said
            assert not list(tmp_path.glob("framehold-*"))


async def test_a_killed_supervisor_leaves_no_process(tmp_path: Path) -> None:
    """The redis-server ends too."""
    async with up(tmp_path, "--port", "0", "--nodes", "1") as running:
        await running.hears("Ctrl-C stops everything.")
        assert len(running.seen) >= 3
        running.send_signal(signal.SIGKILL)
        await running.nothing_left()


async def test_without_redis_the_stand_in_serves(tmp_path: Path) -> None:
    """The table says what the stand-in is. An admin token of the user's own is not shown, and not written to a file."""
    (tmp_path / "server.py").write_text(SERVER)
    own = {"PATH": "/nowhere", "FRAMEHOLD_ADMIN_TOKEN": "0123456789abcdef"}
    async with up(tmp_path, str(tmp_path / "server.py"), "--port", "0", "--nodes", "2", **own) as running:
        said = await running.hears("Ctrl-C stops everything.")
        assert "embedded (there is no redis-server on PATH; a slow stand-in in Python; gone when you stop)" in said
        assert "want your FRAMEHOLD_ADMIN_TOKEN" in said and own["FRAMEHOLD_ADMIN_TOKEN"] not in said
        assert "admin token" not in said and not list(tmp_path.glob("*.token"))
        told = await asyncio.to_thread(shell, running.pasted("framehold call"), "x\n")
        assert "version 1: accept" in told.stdout, told
        assert await running.end() == 0


async def test_reload(tmp_path: Path) -> None:
    """A change is rolled out node by node. Code that can't be imported is not rolled out, and the nodes keep
    running."""
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    async with up(tmp_path, str(server), "--port", "0", "--nodes", "2", "--reload") as running:
        await running.hears("Ctrl-C stops everything.")
        server.write_text(SERVER + "\nthis is no Python")
        said = await running.hears("server.py changed; not reloaded: TARGET ")
        assert "SyntaxError" in said and "the nodes go on with the code that they have" in said
        assert all(alive(running.node(name)[1]) for name in ("node-1", "node-2"))
        server.write_text(SERVER.replace("version 1", "version 2"))
        said = await running.hears("\nreloaded\n")
        assert "restarting 2 nodes one after the other; calls parked on them in an await are lost" in said
        assert "died" not in said
        async with Caller(f"{running.url}/mcp") as caller:
            arguments = {"text": "x", "times": 1}
            asked = await caller.call("echo", arguments=arguments)
            told = await caller.retry("echo", asked.token, asked.accept(word="w"), arguments=arguments)
            assert told.text == "version 2: accept"
        assert await running.end() == 0


async def test_a_reload_goes_on_with_each_call_by_its_own_code(tmp_path: Path) -> None:
    """Edited while a call waits for its answer: that ends as it began, the next call is new."""
    server = tmp_path / "server.py"
    before = SERVER.replace("@mcp.tool()\n", "@mcp.tool()\n@framehold.reentrant\n")
    server.write_text(f"import framehold\n{before}")
    async with up(tmp_path, str(server), "--port", "0", "--nodes", "2", "--reload") as running:
        await running.hears("Ctrl-C stops everything.")
        arguments = {"text": "x", "times": 1}
        async with Caller(f"{running.url}/mcp") as caller:
            asked = await caller.call("echo", arguments=arguments)
            server.write_text(f"import framehold\n{before.replace('version 1', 'version 2')}")
            said = await running.hears("\nreloaded\n")
            line = "open calls (1) go on with the code that they began with, new calls run the new code"
            assert line in said
            told = await caller.retry("echo", asked.token, asked.accept(word="w"), arguments=arguments)
            assert told.text == "version 1: accept" and told.headers["framehold-code"] == "kept"
            asked = await caller.call("echo", arguments=arguments)
            told = await caller.retry("echo", asked.token, asked.accept(word="w"), arguments=arguments)
            assert told.text == "version 2: accept" and "framehold-code" not in told.headers
        assert await running.end() == 0


async def test_a_child_that_cannot_start_ends_it_all(tmp_path: Path) -> None:
    """The error has the last lines of the child. The exit code is 1."""
    (tmp_path / "late.py").write_text(
        SERVER + "\nimport os\nif os.environ.get('FRAMEHOLD_NODE_ID'): raise RuntimeError('no licence here')"
    )
    async with up(tmp_path, str(tmp_path / "late.py"), "--port", "0", "--nodes", "2") as running:
        assert await running.ends() == 1
        said = running.said.splitlines()
        assert re.fullmatch(
            r"framehold: node-\d ended \(exit code 2\) before it was ready: TARGET .*late\.py can't be imported: "
            r"RuntimeError: no licence here \(.*\); everything was stopped again",
            said[-1],
        )
        # A process whose start takes longer than 5 s is shown line by line besides.
        own = [line for line in said if not re.match(r"(node-\d|router|store) +\| ", line)]
        assert "\n".join(own).count("no licence here") == 1
        assert not list(tmp_path.glob("framehold-*"))


async def test_a_made_app_is_served_as_its_server(tmp_path: Path) -> None:
    """The arguments of `framehold.asgi` apply. A misspelt setting is reported once, and a rehearsal is reported."""
    (tmp_path / "server.py").write_text(SERVER + "\nimport framehold\napp = framehold.asgi(mcp, max_rounds=3)\n")
    target = f"{tmp_path / 'server.py'}:app"
    settings = {"FRAMEHOLD_REHERSE": "1", "FRAMEHOLD_REHEARSE": "1"}
    async with up(tmp_path, target, "--port", "0", "--nodes", "2", **settings) as running:
        said = await running.hears("Ctrl-C stops everything.")
        assert said.splitlines()[:2] == [
            "FRAMEHOLD_REHERSE is set, and nothing reads it; did you mean FRAMEHOLD_REHEARSE?",
            "starting 2 nodes, a router and a store; a rehearsal (FRAMEHOLD_REHEARSE): "
            "each answer replays its call ...",
        ]
        assert said.count("FRAMEHOLD_REHERSE") == 1
        told = await asyncio.to_thread(shell, running.pasted("framehold call"), "x\n")
        assert "version 1: accept" in told.stdout, told
        assert await running.end() == 0


async def test_the_second_signal_is_another_one_than_the_first() -> None:
    """The first signal ends the fleet. The second one ends it without a wait."""
    signals = Signals()
    signals.record()
    assert signals.once.is_set() and not signals.twice.is_set()
    signals.record()
    assert signals.twice.is_set()


async def test_a_closed_terminal_is_ignored_under_nohup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without nohup a closed terminal ends the fleet."""
    heard: list[signal.Signals] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "add_signal_handler", lambda number, *_: heard.append(number))
    for ignored in (True, False):
        monkeypatch.setattr(
            signal, "getsignal", lambda _, ignored=ignored: signal.SIG_IGN if ignored else signal.SIG_DFL
        )
        Signals().listen()
    assert [number.name for number in heard] == ["SIGINT", "SIGTERM", "SIGINT", "SIGTERM", "SIGHUP"]
