"""The command line: a mistake ends in one clear line and exit code 2; a signal ends a node, and nothing is left."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

import framehold_cli as cli
from framehold_cli import commands
from framehold_cli.serve.node import KEEP_ALIVE
from framehold_fleet.http_client.node_connection import IDLE
from tests.kit.client import Caller
from tests.kit.fleet import RouterProcess, listens
from tests.kit.nodes import KEY, NodeProcess, node
from tests.kit.processes import ROOT, finished, until
from tests.kit.redis_server import RedisServer

pytestmark = pytest.mark.anyio

SERVER = """
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel
class Word(BaseModel):
    word: str
mcp = MCPServer("m")
two = MCPServer("two")
nothing = object()
@mcp.tool()
async def ask(ctx: Context) -> str:
    "Ask."
    return (await ctx.elicit("Which word?", Word)).action
"""
FILES = {
    "good.py": SERVER,
    "several.py": SERVER.replace("mcp =", "one =").replace("@mcp", "@one"),
    "empty.py": "",
    "notes.md": "# Notes",
    "good": "a file beside the module of its name",
    "broken.py": "this is no Python",
    "raises.py": "raise RuntimeError('first line\\nsecond line')",
    "leaves.py": "import sys\nsys.exit('a reason')",
    "imports.py": "import surely_not_installed",
    "null.py": "\0",
    "makes.py": SERVER
    + "def nobody(): return None\ndef fails(): raise RuntimeError('no database')\ndef needs(name): return mcp\n"
    + "from starlette.applications import Starlette\ndef host(): return Starlette()",
    "fast.py": "raise ModuleNotFoundError('as if it were not there', name='fastmcp')",
}

Run = Callable[..., str]


def test_nodes_keep_an_idle_connection_longer_than_routers() -> None:
    """Else a new call meets a connection that its node is closing, and gets 502. So do nodes that are started as the
    docs say."""
    text = " ".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("hosting.md", "operating.md"))
    assert re.search(r"uvicorn server:app --host \S+ --port \d+ --timeout-keep-alive", text)
    told = [int(seconds) for seconds in re.findall(r"--timeout-keep-alive (\d+)", text)]
    assert "| `--timeout-keep-alive" in text and min(KEEP_ALIVE, *told) > 2 * IDLE


@pytest.fixture
def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kept_loggers: None
) -> Run:
    """Runs a command in this process that must be refused. Returns its one line."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(os, "environ", {**os.environ, "FRAMEHOLD_KEYS": KEY, "FRAMEHOLD_NODE_ID": "n"})

    def never(*_: object, **__: object) -> Any:
        raise AssertionError("it started")

    monkeypatch.setattr(uvicorn.Server, "serve", never)

    def run(*arguments: str, **environment: str | None) -> str:
        for name, value in environment.items():
            os.environ.pop(f"FRAMEHOLD_{name}", None)
            if value is not None:
                os.environ[f"FRAMEHOLD_{name}"] = value
        monkeypatch.setattr(sys, "argv", ["framehold", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        assert ended.value.code == 2, err
        assert err.startswith("framehold: ") and err.count("\n") == 1 and err.endswith("\n"), err
        assert "Traceback" not in err and " serves " not in out
        return err

    return run


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("nowhere.py", "nowhere.py is not a file"),
        ("notes.md", "TARGET notes.md is not a Python file"),
        ("folder/", "is not a file"),
        ("folder/nowhere.py:mcp", "is not a file"),
        ("surely_not_installed", "no module 'surely_not_installed'"),
        ("surely.not.installed:mcp", "no module 'surely'"),
        ("imports.py", "no module 'surely_not_installed'"),
        ("good.py:nobody", "no 'nobody' there (servers found: mcp, two)"),
        ("good:nobody", "no 'nobody' there (servers found: mcp, two)"),
        ("good.py:nothing", "not object"),
        ("good.py:Word", "not ModelMetaclass"),
        ("several.py", "name the server, as several.py:name (found: one, two)"),
        ("empty.py", "found: none"),
        ("broken.py", "can't be imported: SyntaxError"),
        ("null.py", "can't be imported"),
        ("raises.py", "can't be imported: RuntimeError: first line second line"),
        ("leaves.py", "can't be imported: SystemExit: a reason"),
        ("", "is no name of a module"),
        (":mcp", "is no name of a module"),
        ("makes.py:nobody", "nobody() returned NoneType, which is no server"),
        ("makes.py:fails", "can't be imported: RuntimeError: no database (makes.py:"),
        ("makes.py:needs", "missing 1 required positional argument: 'name'"),
        ("makes.py:host", "host is a Starlette app, which may host a server and is none"),
        ("empty.py", "if a function makes it, name the function, as empty.py:create_server"),
        ("fast.py", "there is no module 'fastmcp' (fast.py:1); install it: pip install 'framehold[fastmcp]'"),
        (".relative:mcp", "is no name of a module"),
    ],
)
def test_a_wrong_target(refused: Run, target: str, says: str) -> None:
    """The line says what is missing, or why TARGET can't be imported, and that nothing was started."""
    line = refused("node", target, "--port", "0")
    assert says in line
    assert "nothing was" in line


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("LEASE_TTL", ("abc", "0.1", "1000", "nan", "")),
        ("TOKEN_TTL", ("0", "-1", "inf")),
        ("MAX_ROUND", ("0", "nan", "5 s")),
        ("MAX_PARKED", ("0", "1.5", "many")),
        ("MAX_PARKED_PER_PRINCIPAL", ("-1",)),
        ("MAX_BODY", ("4MiB", "0")),
        ("NODE_ID", ("a node", "", "x" * 64, "ü")),
        ("NAMESPACE", ("a b", "", "{x}", "x" * 1000)),
        ("LOG_LEVEL", ("loud", "")),
        ("KEYS", ("short", f"{KEY},short")),
        ("STORE_URL", ("", "nonsense", "http://x", "redis+sentinel://x", "redis://x:port", "redis://[x")),
    ],
)
def test_a_bad_setting(refused: Run, setting: str, values: tuple[str, ...]) -> None:
    """The line names the setting by its environment variable."""
    for value in values:
        line = refused("node", "good.py", "--port", "0", **{setting: value})
        assert f"FRAMEHOLD_{setting}" in line, value
        assert "nothing was started" in line, value


def test_keys(refused: Run) -> None:
    """For missing, short and doubled keys the line says how to make one, and shows no key."""
    assert "framehold keys new" in refused("node", "good.py", KEYS=None)
    assert "framehold keys new" in refused("node", "good.py", KEYS=" , ")
    secret = "too-short-a-secret"
    line = refused("node", "good.py", KEYS=secret)
    assert "32 bytes" in line and secret not in line
    line = refused("node", "good.py", KEYS=f"{KEY},{KEY}")
    assert "FRAMEHOLD_KEYS" in line and "twice" in line and KEY not in line


def test_secrets_of_a_store_url_are_not_shown(refused: Run) -> None:
    """A URL that is invalid may still contain a password."""
    for url in ("http://user:hunter2@x", "redis://user:hunter2@x:port", "redis://user:hunter2@[x"):
        assert "hunter2" not in refused("node", "good.py", "--store", url)


def test_options_count_more_than_the_environment(refused: Run) -> None:
    """An option replaces the variable, and is checked in the same way."""
    assert "FRAMEHOLD_NODE_ID" in refused("node", "good.py", "--node-id", "a node", NODE_ID="fine")
    assert "FRAMEHOLD_LOG_LEVEL" in refused("node", "good.py", "--log-level", "loud", NODE_ID="fine")


@pytest.mark.parametrize(
    "arguments",
    [
        ("node",),
        ("node", "good.py", "--port", "many"),
        ("node", "good.py", "--port", "70000"),
        ("node", "good.py", "--colour", "red"),
        ("node", "good.py", "more.py"),
        ("knots",),
        ("keys", "old"),
    ],
)
def test_a_mistake_in_the_command_itself(refused: Run, arguments: tuple[str, ...]) -> None:
    """The error is one line that names the help."""
    assert "--help" in refused(*arguments)


def test_a_port_or_address_that_cannot_be_had(refused: Run) -> None:
    """The line names the address, and says what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused("node", "good.py", "--port", str(port))
        admin = refused("node", "good.py", "--port", "0", ADMIN_PORT=str(port))
    assert f"127.0.0.1:{port}" in line and "choose another --port" in line
    assert f"127.0.0.1:{port}" in admin and "choose another FRAMEHOLD_ADMIN_PORT" in admin
    os.environ.pop("FRAMEHOLD_ADMIN_PORT")
    for host in ("no.such.host.invalid", "192.0.2.1", "not a host"):
        assert host in refused("node", "good.py", "--host", host, "--port", "0")


def run(*arguments: str, cwd: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Start a command in a process of its own."""
    return finished([sys.executable, "-c", "from framehold_cli import main; main()", *arguments], cwd, **settings)


def test_the_same_as_a_process(tmp_path: Path) -> None:
    """Exit code 2, one line on standard error, and nothing on standard output."""
    result = run("node", "nowhere.py", cwd=tmp_path, FRAMEHOLD_KEYS=KEY)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("framehold: TARGET nowhere.py is not a file")


async def test_a_new_key_is_one_that_a_node_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`framehold keys new` prints only the key. No two keys are the same."""
    made = []
    for _ in range(2):
        commands.keys_new()
        made.append(capsys.readouterr().out)
    assert made[0] != made[1] and all(len(key.strip()) == 64 and key.count("\n") == 1 for key in made)
    (tmp_path / "good.py").write_text(SERVER)
    async with (
        node(str(tmp_path / "good.py"), tmp_path, keys=made[0].strip(), node_id="n") as child,
        Caller(child.url) as caller,
    ):
        asked = await caller.call("ask")
        assert (await caller.retry("ask", asked.token, asked.accept(word="x"))).text == "accept"
        await ended(child, signal.SIGTERM, port_of(child))


def port_of(child: NodeProcess) -> int:
    return int(child.url.removeprefix("http://127.0.0.1:").removesuffix("/mcp"))


async def ended(child: NodeProcess, how: signal.Signals, port: int) -> int | None:
    """End a node by a signal. It ends soon, prints no error, and frees its port."""
    start = time.monotonic()
    code = await asyncio.to_thread(child.stop, how)
    # Where others have the processor its end takes longer, and so did its start.
    assert time.monotonic() - start < max(3, child.took)
    assert "Traceback" not in child.log() and "Error" not in child.log(), child.log()
    with socket.create_server(("127.0.0.1", port)):
        pass
    return code


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_a_node(tmp_path: Path, how: signal.Signals) -> None:
    """The node ends within two seconds, also with parked calls and an open connection. The handlers' `finally` blocks
    run."""
    note = tmp_path / "finally"
    body = SERVER.replace(
        '    return (await ctx.elicit("Which word?", Word)).action', "    await parked(ctx)\n    return ''"
    )
    noting = f"""
async def parked(ctx):
    try:
        await ctx.elicit("Which word?", Word)
    finally:
        open({str(note)!r}, "w").close()
"""
    (tmp_path / "noting.py").write_text(body + noting)
    async with node(str(tmp_path / "noting.py"), tmp_path, node_id="n") as child, Caller(child.url) as caller:
        assert (await caller.call("ask")).messages == ["Which word?"]
        code = await ended(child, how, port_of(child))
    assert code in (0, -how, 128 + how)
    await until(note.exists, "the handler's finally")


async def test_a_second_ctrl_c_ends_a_router(redis: RedisServer, tmp_path: Path) -> None:
    """It waits for no request that is under way. The first one does."""
    settings = {"FRAMEHOLD_STORE_URL": redis.url, "FRAMEHOLD_DRAIN_TIMEOUT": "60"}
    router = RouterProcess(tmp_path / "router.log", **settings)
    try:
        await router.start()
        port = int(router.root.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"POST /mcp HTTP/1.1\r\nhost: here\r\ncontent-length: 9\r\n\r\nhalf")
            await asyncio.to_thread(httpx2.get, f"{router.root}/healthz")
            router.send_signal(signal.SIGINT)
            await router.until(lambda: not listens(port), "the end of its listening")
            router.send_signal(signal.SIGINT)
            assert await router.ends() == 128 + signal.SIGINT
    finally:
        router.stop()
