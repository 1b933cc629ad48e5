"""`framehold up` as a user runs it: a table, commands that work as printed, nodes that come back, and a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from framehold_cli.local.up import Signals
from framehold_fleet.identity.router_keys import text_of
from tests.cli.processes import Up, up
from tests.kit.client import Caller
from tests.kit.processes import ROOT, RUN, alive, descendants, finished, stat, until
from tests.kit.redis_server import RedisServer

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
ARGUMENTS = {"text": "x", "times": 1}


@pytest.fixture(scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Up]:
    """A fleet shared by the tests that don't change it."""
    async with up(tmp_path_factory.mktemp("fleet"), "--port", "0", "--nodes", "2") as running:
        await running.hears("Ctrl-C stops everything.")
        yield running
        # One call more is open than the tests have left.
        before = await asyncio.to_thread(parked, running)
        await asyncio.to_thread(shell, running.pasted("curl"))
        await until(lambda: parked(running) > before, "the router knows of the open call")
        assert await running.end() == 0
        assert re.search(r"\nstopped; lost with the store: \d open calls?\n$", running.said), running.said[-200:]


def shell(command: str, answers: str = "", **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a pasted command line in a shell."""
    return finished(["sh", "-c", command], ROOT, answers, **settings)


def parked(running: Up) -> int:
    """How many calls are parked, as the router says."""
    headers = {"Authorization": f"Bearer {running.token}"}
    count: int = httpx2.get(f"{running.url}/api/v1/overview", headers=headers).json()["parked"]
    return count


def framehold(*arguments: str, cwd: Path = ROOT, **settings: str) -> subprocess.CompletedProcess[str]:
    return finished([*RUN, *arguments], cwd, "", **settings)


async def test_the_table(fleet: Up) -> None:
    """The table has all addresses and what is kept, once and in aligned columns. Nothing else is printed."""
    lines = fleet.said.splitlines()
    assert lines[0] == "starting 2 nodes, a router and a store ..."
    assert lines[2] == "framehold is up: 2 nodes serve the booking example"
    names = ("router", "dashboard", "playground", "node-1", "node-2")
    table = [line for line in lines if line.startswith(tuple(f"  {name} " for name in (*names, "store")))]
    assert [line.split()[0] for line in table] == [*names, "store"]
    assert len({line.index("http") for line in table[:-1]}) == 1
    assert "gone when you stop" in table[-1]
    [source] = [line.split()[1] for line in lines if line.startswith("  source ")]
    assert "await framehold.once(" in (ROOT / source).read_text()
    result = [line.split(maxsplit=1) for line in lines if fleet.token in line]
    links = {"dashboard": f"{fleet.url}/dashboard", "playground": f"{fleet.url}/dashboard/playground"}
    signed_in = [[name, f"{link}#token={fleet.token}"] for name, link in links.items()]
    assert result == [*signed_in, ["admin", f"token  {fleet.token}"]]
    assert " | " not in fleet.said and "\x1b" not in fleet.said
    for name in ("node-1", "node-2"):
        address, pid = fleet.node(name)
        assert alive(pid)
        assert httpx2.get(f"{address}/readyz").status_code == 200
    assert "<title>Framehold</title>" in httpx2.get(f"{fleet.url}/dashboard").text
    assert httpx2.get(f"{fleet.url}/api/v1/overview").status_code == 401


async def test_the_curl_line_is_round_one(fleet: Up) -> None:
    """The printed curl command works in a shell. It gets the first question and a token."""
    outcome = await asyncio.to_thread(shell, fleet.pasted("curl"))
    assert outcome.stderr == "", outcome.stderr
    result = json.loads(re.sub(r"(?m)^data: |^(event|id|:).*$", "", outcome.stdout))["result"]
    assert result["resultType"] == "input_required" and result["requestState"].startswith("h1.")
    [question] = result["inputRequests"].values()
    assert "Luna" in question["params"]["message"]


async def test_the_call_line_asks_three_questions(fleet: Up) -> None:
    """The printed command works in a shell. Each question shows its node, which is the same for all three."""
    line = fleet.pasted("framehold call")
    result = await asyncio.to_thread(shell, line, "4\nsaturday\n\nn\nAda\n")
    assert (result.returncode, result.stderr) == (0, ""), result
    assert "Booked for Ada. Luna, saturday evening: a table for 4 by the window, without candles" in result.stdout
    nodes = re.findall(r"(?m)^\[(node-\d)", result.stdout)
    assert len(nodes) == 4 and len(set(nodes)) == 1


async def test_the_nodes_line_lists_them(fleet: Up) -> None:
    """The printed command works in a shell."""
    result = await asyncio.to_thread(shell, fleet.pasted("framehold nodes"), **fleet.beside)
    assert [line.split()[:2] for line in result.stdout.splitlines()[1:]] == [["node-1", "live"], ["node-2", "live"]]


async def test_the_hint_names_a_node_to_kill(fleet: Up) -> None:
    """The hint has a pid of the table, and says what happens to the call: the example's tool is re-entrant."""
    hint = f"(its pid is above; node-1: kill -9 {fleet.node('node-1')[1]}) and answer.\n"
    fate = "The call goes on once the dead one's lease (5 s) has run out: since the tool is marked\n@framehold."
    assert hint + fate in fleet.said


async def test_a_store_of_ones_own_keeps_open_calls(tmp_path: Path) -> None:
    """The table and the last line say so."""
    redis = RedisServer()
    redis.start()
    try:
        async with up(tmp_path, "--port", "0", "--nodes", "1", "--store", redis.url) as running:
            assert "(yours; what is in it stays, but" in await running.hears("Ctrl-C stops everything.")
            await asyncio.to_thread(shell, running.pasted("curl"))
            await until(lambda: parked(running) == 1, "the router knows of the open call")
            assert await running.end() == 0
            assert running.said.endswith("\nstopped; 1 open call stays in your store, for nodes with the same keys\n")
    finally:
        redis.remove()


async def test_sagas_are_served(fleet: Up) -> None:
    """Elsewhere they are off, and their method is unknown."""
    async with Caller(f"{fleet.url}/mcp") as caller:
        reply = await caller.send("tools/callSaga", {"name": "nobody", "arguments": {}})
    assert reply.text == "Unknown tool: nobody"


async def test_nodes_and_ring(fleet: Up) -> None:
    """Both commands print the router's reply, as JSON and as columns."""
    where = ("--url", fleet.url)
    result = await asyncio.to_thread(framehold, "nodes", "-o", "json", *where, **fleet.beside)
    found = json.loads(result.stdout)
    assert {one["node_id"]: one["pid"] for one in found} == {name: fleet.node(name)[1] for name in ("node-1", "node-2")}
    ring = json.loads((await asyncio.to_thread(framehold, "ring", "-o", "json", *where, **fleet.beside)).stdout)
    assert sum(one["share"] for one in ring["nodes"]) == pytest.approx(1)
    for command, head in (("nodes", "NODE    STATE"), ("ring", "NODE    STATE")):
        lines = (await asyncio.to_thread(framehold, command, *where, **fleet.beside)).stdout.splitlines()
        assert lines[0].startswith(head) and [line.split()[0] for line in lines[1:3]] == ["node-1", "node-2"]


async def test_the_admin_token_is_needed_and_found(fleet: Up, tmp_path: Path) -> None:
    """Commands of the same user on this machine find the token. A user without the token and its file is told what to
    do."""
    [file] = Path(fleet.beside["XDG_RUNTIME_DIR"]).glob("framehold-*.json")
    assert json.loads(file.read_text())["admin_token"] == fleet.token and file.stat().st_mode & 0o777 == 0o600
    where = ("status", "--url", fleet.url)
    assert (await asyncio.to_thread(framehold, *where, **fleet.beside)).returncode == 0
    stranger: dict[str, Any] = {"XDG_RUNTIME_DIR": str(tmp_path)}
    result = await asyncio.to_thread(framehold, *where, **stranger)
    assert (
        result.returncode == 3 and "401: " in result.stderr and "give --token or FRAMEHOLD_ADMIN_TOKEN" in result.stderr
    )
    result = await asyncio.to_thread(framehold, *where, FRAMEHOLD_ADMIN_TOKEN=fleet.token, **stranger)
    assert result.returncode == 0


async def test_no_secret_is_on_a_command_line_or_shown(fleet: Up) -> None:
    """Children get the keys and the admin token in their environment. Only the table shows the token."""
    _, pid = fleet.node("node-1")
    result = environ(pid)
    for name in ("FRAMEHOLD_KEYS", "FRAMEHOLD_ADMIN_TOKEN"):
        assert len(result[name]) >= 32
        assert fleet.said.count(result[name]) == (3 if name == "FRAMEHOLD_ADMIN_TOKEN" else 0)
        for one in fleet.seen:
            if alive(one):
                assert result[name].encode() not in Path(f"/proc/{one}/cmdline").read_bytes()


async def test_its_router_has_no_key_that_opens_anything(fleet: Up) -> None:
    """Whoever reads its memory finds what is derived for routers alone. A node's has the keys."""
    node = fleet.node("node-1")[1]
    (router,) = (pid for pid in filter(alive, fleet.seen) if b"\0router\0" in Path(f"/proc/{pid}/cmdline").read_bytes())
    key, derived = (environ(node)[f"FRAMEHOLD_{name}"] for name in ("KEYS", "ROUTER_KEYS"))
    assert derived == text_of([key.encode()])
    assert holds(node, key) and holds(router, derived) and not holds(router, key)


def environ(pid: int) -> dict[str, str]:
    """The variables that a process was started with."""
    return dict(line.split("=", 1) for line in Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in line)


def holds(pid: int, secret: str) -> bool:
    """Whether the memory that a process can write to has a secret."""
    with Path(f"/proc/{pid}/maps").open() as maps, Path(f"/proc/{pid}/mem").open("rb") as memory:
        for line in maps:
            bounds, rights, *_ = line.split()
            start, end = (int(bound, 16) for bound in bounds.split("-"))
            if rights.startswith("rw"):
                memory.seek(start)
                with contextlib.suppress(OSError):
                    if secret.encode() in memory.read(end - start):
                        return True
    return False


async def test_each_node_has_a_hash_seed_of_its_own(fleet: Up) -> None:
    """Two nodes go through a set of texts in different orders, in each run: a handler that depends on this diverges
    when another node carries its call on."""
    seeds = []
    for name in ("node-1", "node-2"):
        seeds.append(environ(fleet.node(name)[1])["PYTHONHASHSEED"])
    code = "print(*{'Ada', 'Bob', 'Cyd', 'Dan'})"
    orders = {finished([sys.executable, "-c", code], PYTHONHASHSEED=seed).stdout for seed in seeds}
    assert len(seeds) == len(orders) == 2


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
        result = "calls parked on it go on once its lease (1 s) has run out"
        await running.hears(f"node-1 died (SIGKILL); {result}; starting it again in 1 s\n")
        text = await running.hears("node-1 is back (pid ")
        assert f"(pid {pid})" not in text
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
    """The redis-server ends too. Its server has no tools: there is no hint to kill a node during a call."""
    (tmp_path / "bare.py").write_text("from mcp.server import MCPServer\nmcp = MCPServer('bare')")
    async with up(tmp_path, str(tmp_path / "bare.py"), "--port", "0", "--nodes", "1") as running:
        text = await running.hears("Ctrl-C stops everything.")
        assert "It shows no tools." in text and "kill -9" not in text and "1 node, a router" in text
        assert len(running.seen) >= 3
        running.send_signal(signal.SIGKILL)
        await running.nothing_left()


async def test_without_redis_the_stand_in_serves(tmp_path: Path) -> None:
    """The table says what the stand-in is. An admin token of the user's own is not shown, and not written to a file."""
    (tmp_path / "server.py").write_text(SERVER)
    own = {"PATH": "/nowhere", "FRAMEHOLD_ADMIN_TOKEN": "0123456789abcdef"}
    async with up(tmp_path, str(tmp_path / "server.py"), "--port", "0", "--nodes", "2", **own) as running:
        text = await running.hears("Ctrl-C stops everything.")
        assert "embedded (there is no redis-server on PATH; a slow stand-in in Python; gone when you stop)" in text
        assert "want your FRAMEHOLD_ADMIN_TOKEN" in text and own["FRAMEHOLD_ADMIN_TOKEN"] not in text
        assert "admin token" not in text
        [file] = tmp_path.glob("framehold-*.json")
        assert own["FRAMEHOLD_ADMIN_TOKEN"] not in file.read_text()
        result = await asyncio.to_thread(shell, running.pasted("framehold call"), "x\n")
        assert "version 1: accept" in result.stdout, result
        assert await running.end() == 0


async def test_reload(tmp_path: Path) -> None:
    """There is one node. A change is told at once, and the process that serves it had been started before. Code that
    can't be imported is not rolled out, and the node keeps running."""
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    async with up(tmp_path, str(server), "--port", "0", "--reload") as running:
        text = await running.hears("Ctrl-C stops everything.")
        assert "starting 1 node, a router and a store" in text
        _, pid = running.node("node-1")
        server.write_text(SERVER + "\nthis is no Python")
        text = await running.hears("; the node goes on with the code from before\n")
        assert "\nserver.py changed, checking ...\nnot reloaded: TARGET " in text and "SyntaxError" in text
        assert alive(pid)
        standing = await until(lambda: standing_by(running), "the process that stands by")
        server.write_text(SERVER.replace("version 1", "version 2"))
        text = await running.hears("\nreloaded\n")
        assert "restarting the node; no call is open" in text
        assert f"node-1 is back (pid {standing})" in text and "died" not in text
        assert await answered(running) == "version 2: accept"
        assert await running.end() == 0


def standing_by(running: Up) -> int | None:
    """The pid of the process that stands by; None if none does."""
    for pid in descendants(running.pid):
        if alive(pid) and b"\0--standby\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    return None


async def answered(running: Up) -> str:
    """What a new call comes to."""
    async with Caller(f"{running.url}/mcp") as caller:
        asked = await caller.call("echo", arguments=ARGUMENTS)
        result = await caller.retry("echo", asked.token, asked.accept(word="w"), arguments=ARGUMENTS)
    return result.text


@asynccontextmanager
async def edited(server: Path, code: str, **settings: str) -> AsyncIterator[tuple[Up, Caller]]:
    """Two nodes that serve `code` from the file `server` and watch it, and a caller of theirs."""
    server.write_text(code)
    async with up(server.parent, str(server), "--port", "0", "--nodes", "2", "--reload", **settings) as running:
        await running.hears("Ctrl-C stops everything.")
        async with Caller(f"{running.url}/mcp") as caller:
            yield running, caller
        assert await running.end() == 0


async def test_a_reload_goes_on_with_each_call_by_its_own_code(tmp_path: Path) -> None:
    """Edited while a call waits for its answer: that ends as it began, the next call is new."""
    server = tmp_path / "server.py"
    before = "import framehold\n" + SERVER.replace("@mcp.tool()\n", "@mcp.tool()\n@framehold.reentrant\n")
    async with edited(server, before) as (running, caller):
        asked = await caller.call("echo", arguments=ARGUMENTS)
        server.write_text(before.replace("version 1", "version 2"))
        text = await running.hears("\nreloaded\n")
        line = "open calls (1) go on with the code that they began with, new calls run the new code"
        assert line in text
        result = await caller.retry("echo", asked.token, asked.accept(word="w"), arguments=ARGUMENTS)
        assert result.text == "version 1: accept" and result.headers["framehold-code"] == "kept"
        asked = await caller.call("echo", arguments=ARGUMENTS)
        result = await caller.retry("echo", asked.token, asked.accept(word="w"), arguments=ARGUMENTS)
        assert result.text == "version 2: accept" and "framehold-code" not in result.headers


def _reloaded(running: Up, times: int) -> bool:
    return running.said.count("\nreloaded\n") == times


async def test_open_calls_are_counted_after_a_reload_and_under_a_token_of_ones_own(tmp_path: Path) -> None:
    """A reload hands them off: no node holds them until their clients come back."""
    server, count = tmp_path / "server.py", "open calls (1) go on with the code that they began with"
    code = "import framehold\n" + SERVER.replace("@mcp.tool()\n", "@mcp.tool()\n@framehold.reentrant\n")
    async with edited(server, code, FRAMEHOLD_ADMIN_TOKEN="t" * 32) as (running, caller):
        await caller.call("echo", arguments=ARGUMENTS)
        for reloads in (1, 2):
            code += "# changed\n"
            server.write_text(code)
            await until(partial(_reloaded, running, reloads), "the reload")
            assert running.said.count(count) == reloads, running.said[-600:]
    assert running.said.endswith("\nstopped; lost with the store: 1 open call\n"), running.said[-300:]


async def test_a_reload_says_which_open_calls_are_lost(tmp_path: Path) -> None:
    """Those of the tool that is not marked; their clients hear it, too."""
    server = tmp_path / "server.py"
    tool = SERVER[SERVER.index("@mcp.tool()") :]
    marked = tool.replace("@mcp.tool()\n", "@mcp.tool('marked')\n@framehold.reentrant\n")
    before = f"import framehold\n{SERVER}\n\n{marked}"
    async with edited(server, before) as (running, caller):
        asked = {tool: await caller.call(tool, arguments=ARGUMENTS) for tool in ("echo", "marked")}
        server.write_text(f"{before}\n# changed\n")
        text = await running.hears("\nreloaded\n")
        assert (
            "; open calls (1) go on with the code that they began with, new calls run the new code; "
            "open calls of tools without @framehold.reentrant are lost (1)\n"
        ) in text
        ended = {
            tool: await caller.retry(tool, one.token, one.accept(word="w"), arguments=ARGUMENTS)
            for tool, one in asked.items()
        }
        assert ended["marked"].text == "version 1: accept"
        assert ended["echo"].result["_meta"]["framehold/reason"] == "lost"


async def test_a_child_that_cannot_start_ends_it_all(tmp_path: Path) -> None:
    """The error has the last lines of the child. The exit code is 1."""
    (tmp_path / "late.py").write_text(
        SERVER + "\nimport os\nif os.environ.get('FRAMEHOLD_NODE_ID'): raise RuntimeError('no licence here')"
    )
    async with up(tmp_path, str(tmp_path / "late.py"), "--port", "0", "--nodes", "2") as running:
        assert await running.ends() == 1
        text = running.said.splitlines()
        assert re.fullmatch(
            r"framehold: node-\d ended \(exit code 2\) before it was ready: TARGET .*late\.py can't be imported: "
            r"RuntimeError: no licence here \(.*\); everything was stopped again",
            text[-1],
        )
        # A process whose start takes longer than 5 s is shown line by line besides.
        own = [line for line in text if not re.match(r"(node-\d|router|store) +\| ", line)]
        assert "\n".join(own).count("no licence here") == 1
        assert not list(tmp_path.glob("framehold-*"))


async def test_a_made_app_is_served_as_its_server(tmp_path: Path) -> None:
    """The arguments of `framehold.asgi` apply. A misspelt setting is reported once, and a rehearsal is reported."""
    (tmp_path / "server.py").write_text(SERVER + "\nimport framehold\napp = framehold.asgi(mcp, max_rounds=3)\n")
    target = f"{tmp_path / 'server.py'}:app"
    settings = {"FRAMEHOLD_REHERSE": "1", "FRAMEHOLD_REHEARSE": "1"}
    async with up(tmp_path, target, "--port", "0", "--nodes", "2", **settings) as running:
        text = await running.hears("Ctrl-C stops everything.")
        assert text.splitlines()[:2] == [
            "FRAMEHOLD_REHERSE is set, and nothing reads it; did you mean FRAMEHOLD_REHEARSE?",
            "starting 2 nodes, a router and a store; a rehearsal (FRAMEHOLD_REHEARSE): "
            "each answer replays its call ...",
        ]
        assert text.count("FRAMEHOLD_REHERSE") == 1
        result = await asyncio.to_thread(shell, running.pasted("framehold call"), "x\n")
        assert "version 1: accept" in result.stdout, result
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
    reply: list[signal.Signals] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "add_signal_handler", lambda number, *_: reply.append(number))
    for ignored in (True, False):
        monkeypatch.setattr(
            signal, "getsignal", lambda _, ignored=ignored: signal.SIG_IGN if ignored else signal.SIG_DFL
        )
        Signals().listen()
    assert [number.name for number in reply] == ["SIGINT", "SIGTERM", "SIGINT", "SIGTERM", "SIGHUP"]
