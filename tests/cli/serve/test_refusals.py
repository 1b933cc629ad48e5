"""Errors before anything starts: each is one line that says what was wrong and what to do."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from framehold_cli.local import check
from framehold_core.errors import ConfigError
from tests.cli.local.test_up import framehold
from tests.kit.processes import ROOT, RUN, alive, environment, finished, until

pytestmark = pytest.mark.anyio

STARTING = "starting 3 nodes, a router and a store ...\n"


async def test_a_taken_port() -> None:
    """One line names the port and says what to do. The exit code is 2."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = await asyncio.to_thread(framehold, "up", "--port", str(port))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1 and f"port {port} of 127.0.0.1" in result.stderr
    assert "nothing was started; choose another --port" in result.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file for each mistake."""
    (tmp_path / "notes.md").write_text("# Notes")
    (tmp_path / "typo.py").write_text("mpc = MCPServer('x')")
    (tmp_path / "open.py").write_text("value = 1\nprint(value")
    (tmp_path / "deep.py").write_text("import below\nbelow.f()")
    (tmp_path / "below.py").write_text("def f():\n    1 / 0\n")
    (tmp_path / "library.py").write_text("import json\njson.loads('{')")
    (tmp_path / "needs.py").write_text("import surely_not_installed")
    (tmp_path / "leaves.py").write_text("import os\nos._exit(3)")
    (tmp_path / "quiet.py").write_text("import os\nos._exit(0)")
    (tmp_path / "nothing.py").write_text("nothing = object()")
    (tmp_path / "two.py").write_text(
        "from mcp.server import MCPServer\none, other = MCPServer('one'), MCPServer('other')"
    )
    (tmp_path / "made.py").write_text(
        "import framehold\nfrom mcp.server import MCPServer\nmcp = MCPServer('m')\napp = framehold.asgi(mcp)"
    )
    (tmp_path / "hosts.py").write_text("from starlette.applications import Starlette\napi = Starlette()")
    (tmp_path / "old.py").write_text("from mcp.server.fastmcp import FastMCP")
    (tmp_path / "older.py").write_text("from mcp.server import FastMCP")
    (tmp_path / "argument.py").write_text(
        "from mcp.server import MCPServer\nmcp = MCPServer('Booking', host='0.0.0.0', port=8000, stateless_http=False)"
    )
    (tmp_path / "mark.py").write_text("import framehold\n@framehold.rentrant\nasync def book(): ...")
    (tmp_path / "wrong.py").write_text("from mcp.server import MCPServer\nmcp = MCPServer('Booking', hosts=[])")
    return tmp_path


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("nowhere.py", "TARGET nowhere.py is not a file"),
        ("notes.md", "TARGET notes.md is not a Python file; nothing was started"),
        (".", "TARGET '.' is no name of a module; nothing was started; name one as file.py or module:name"),
        ("made..app", "TARGET 'made..app' is no name of a module; nothing was started"),
        ("", "TARGET '' is no name of a module; nothing was started"),
        ("two.py:", "TARGET two.py: name the server, as two.py:name (found: one, other)"),
        ("surely_not_installed", "there is no module 'surely_not_installed'"),
        (
            "typo.py",
            "TARGET typo.py can't be imported: NameError: name 'MCPServer' is not defined (typo.py:1); nothing",
        ),
        ("open.py", "SyntaxError: '(' was never closed (open.py:2); nothing"),
        ("deep.py", "ZeroDivisionError: division by zero (below.py:2); nothing"),
        ("library.py", "(library.py:2); nothing"),
        ("needs.py", "there is no module 'surely_not_installed' (needs.py:1); nothing"),
        ("typo.py:mpc", "TARGET typo.py can't be imported: NameError"),
        ("leaves.py", "can't be imported: exit code 3"),
        ("quiet.py", "it ended the process that imported it"),
        ("nothing.py:nothing", "not object"),
        ("made.py:ap", "no 'ap' there (servers found: app, mcp); nothing was started"),
        (
            "hosts.py:api",
            "api is a Starlette app, which may host a server and is none; nothing was started; run it as uvi",
        ),
        ("hosts.py", "run it as uvicorn hosts:api with the FRAMEHOLD_ settings in the environment"),
        ("old.py", "(old.py:1); that is of mcp 1; now: from mcp.server import MCPServer; from mcp.server.mcpserver im"),
        ("older.py", "(older.py:1); that is of mcp 1; now: from mcp.server import MCPServer"),
        (
            "argument.py",
            "argument 'host' (argument.py:2); that is of mcp 1; leave out each argument about HTTP: the end",
        ),
        ("wrong.py", "argument 'hosts' (wrong.py:2); nothing"),
        ("mark.py", "no attribute 'rentrant'; did you mean 'reentrant'? (mark.py:2); nothing"),
    ],
)
def test_a_wrong_target(folder: Path, target: str, says: str) -> None:
    """The line that a node would print, of what the child of `up` says that imports TARGET."""
    result = framehold("check", "--", target, cwd=folder)
    assert "framehold-target" not in result.stdout, result
    line = str(check.refusal(target, result.returncode, result.stderr.splitlines()))
    assert says in line and "\n" not in line and "nothing was" in line


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("nowhere.py", "TARGET nowhere.py is not a file"),
        ("notes.md", "TARGET notes.md is not a Python file"),
        ("typo.py", "TARGET typo.py can't be imported: NameError: name 'MCPServer' is not defined (typo.py:1)"),
        ("quiet.py", "TARGET quiet.py can't be imported: it ended the process that imported it"),
    ],
)
def test_up_says_what_is_wrong_with_a_target(folder: Path, target: str, says: str) -> None:
    """`up` prints that line before anything was started."""
    result = framehold("up", target, "--port", "0", cwd=folder)
    # To see that there is no such file nothing is imported.
    assert (result.returncode, result.stdout) == (2, "" if " is not a" in says else STARTING), result
    assert result.stderr.startswith(f"framehold: {says}; nothing was") and result.stderr.count("\n") == 1


UNMARKED = """
import framehold
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
mcp = MCPServer("m")
@mcp.tool()
async def book(ctx: Context) -> str:
    "Book."
@mcp.prompt()
async def talk(ctx: Context) -> str:
    "Talk."
app = framehold.asgi(mcp)
"""
REFUSED = 'not marked re-entrant: tool "book", prompt "talk"; nothing was started; mark each with @framehold.reentrant'


@pytest.mark.parametrize("command", ["node", "up"])
def test_strategy_replay_of_what_is_not_marked(tmp_path: Path, command: str) -> None:
    """One line names all unmarked handlers and the ways out, before anything is started."""
    (tmp_path / "unmarked.py").write_text(UNMARKED)
    settings = {"FRAMEHOLD_STRATEGY": "replay", "FRAMEHOLD_KEYS": "k" * 32}
    result = framehold(command, "unmarked.py", "--port", "0", cwd=tmp_path, **settings)
    assert result.returncode == 2 and result.stdout == ("" if command == "node" else STARTING), result
    assert result.stderr.startswith("framehold: strategy replay ") and result.stderr.count("\n") == 1
    assert REFUSED in result.stderr and result.stderr.endswith(" FRAMEHOLD_STRATEGY=hold\n")


def test_plain_uvicorn_tells_the_same_in_its_log(tmp_path: Path) -> None:
    """uvicorn logs the error, and exits."""
    (tmp_path / "unmarked.py").write_text(UNMARKED)
    served = [sys.executable, "-m", "uvicorn", "unmarked:app", "--port", "0"]
    result = finished(served, tmp_path, FRAMEHOLD_STRATEGY="replay")
    assert result.returncode == 3 and REFUSED in result.stderr and "Traceback" not in result.stderr, result


async def test_a_target_that_runs_a_server_when_it_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check has a timeout. The line names the usual cause."""
    monkeypatch.setattr(check, "PATIENCE", 1.0)
    (tmp_path / "busy.py").write_text("import time\ntime.sleep(60)")
    with pytest.raises(ConfigError, match=r"within 1 s; nothing was started; .* if __name__ == \"__main__\":"):
        await check.in_child(str(tmp_path / "busy.py"), {})


HELPER = """
import atexit, pathlib, subprocess, time
pathlib.Path(__file__).with_suffix(".pid").write_text(str(subprocess.Popen(["sleep", "77"]).pid))
from mcp.server import MCPServer
mcp = MCPServer("m")
atexit.register(print, "bye", flush=True)
"""


@pytest.mark.parametrize(
    ("more", "patience", "says"),
    [
        ("", 60.0, ""),
        ("raise ValueError('no such table')", 60.0, "can't be imported: ValueError: no such table"),
        ("time.sleep(60)", 6.0, "can't be imported within 6 s"),
    ],
    ids=["served", "refused", "late"],
)
async def test_a_target_that_starts_a_process_when_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, patience: float, says: str
) -> None:
    """It holds the output of the check, and lives on when that has ended. The check neither waits for it nor leaves
    it."""
    monkeypatch.setattr(check, "PATIENCE", patience)
    server = tmp_path / "helped.py"
    server.write_text(HELPER + more)
    if says:
        with pytest.raises(ConfigError, match=says):
            await check.in_child(str(server), {})
    else:
        assert (await check.in_child(str(server), {})).file == server
    helper = int(server.with_suffix(".pid").read_text())
    await until(lambda: not alive(helper), "the end of the helper", 10.0)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("up", "--nodes", "0"), "--nodes must be 1 to 50, not 0; nothing was started; see: framehold up --help"),
        (
            ("node", "x", "--port", "65536"),
            "--port must be 0 to 65535, not 65536; nothing was started; see: framehold node",
        ),
        (
            ("up", "--port", "abc"),
            "--port must be a whole number, not 'abc'; nothing was done; see: framehold up --help",
        ),
        *(
            pytest.param(("load", "kill", *words), text, marks=pytest.mark.load)
            for words, text in [
                (("--think", "x"), "--think must be a number, not 'x'; nothing was done; see: framehold load"),
                (("--nodes", "51"), "--nodes must be 1 to 50, not 51; nothing was started; see: framehold load"),
                (("--think", "inf"), "--think must be 0 to 86400, not inf; nothing was started"),
                (("--seconds", "nan"), "--seconds must be 0 to 604800, not nan; nothing was started"),
            ]
        ),
        (
            ("drain", "n1", "--timeout", "-1"),
            "--timeout must be 0 to 86400, not -1.0; nothing was done; see: framehold",
        ),
        (
            ("leases", "--limit", "0", "--all"),
            "--limit must be 1 to 1000, not 0; nothing was done; see: framehold leases",
        ),
        (("calls", "--limit", "1001"), "--limit must be 1 to 1000, not 1001; nothing was done; see: framehold calls"),
        (("leases", "--sort", "nope"), "; nothing was done; see: framehold leases --help"),
        (("up", "--odd"), "see: framehold up --help"),
        (("keys", "odd"), "see: framehold keys --help"),
        (("odd",), "see: framehold --help"),
    ],
)
def test_a_mistyped_command(arguments: tuple[str, ...], says: str) -> None:
    """One line names the help of the command."""
    result = framehold(*arguments)
    assert (result.returncode, result.stdout) == (2, "") and says in result.stderr and result.stderr.count("\n") == 1


def test_the_release() -> None:
    assert framehold("--version").stdout == f"framehold {version('framehold')}\n"


async def test_a_store_that_does_not_answer() -> None:
    """The error comes before anything starts, and doesn't show the password."""
    result = await asyncio.to_thread(framehold, "up", "--port", "0", "--store", "redis://user:hunter2@127.0.0.1:1")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert result.stdout == "starting 3 nodes and a router ...\n"
    assert "redis://127.0.0.1:1 doesn't answer" in result.stderr and "hunter2" not in result.stderr


def test_a_router_needs_keys_and_a_store() -> None:
    """Each missing setting gives one line."""
    result = framehold("router", "--store", "redis://127.0.0.1:1")
    assert (
        result.returncode == 2
        and "FRAMEHOLD_ROUTER_KEYS is missing" in result.stderr
        and result.stderr.count("\n") == 1
    )
    stores: tuple[dict[str, Any], ...] = ({}, {"FRAMEHOLD_STORE_URL": "embedded://"})
    for store in stores:
        result = framehold("router", FRAMEHOLD_KEYS="k" * 32, **store)
        assert result.returncode == 2 and "FRAMEHOLD_STORE_URL" in result.stderr and result.stderr.count("\n") == 1


def test_a_router_says_where_it_can_make_no_socket(tmp_path: Path) -> None:
    """A socket's path may have about a hundred bytes."""
    (long := tmp_path / ("l" * 90)).mkdir()
    store: dict[str, Any] = {"FRAMEHOLD_KEYS": "k" * 32, "FRAMEHOLD_STORE_URL": "redis://127.0.0.1:1"}
    result = framehold("router", "--port", "0", **store, TMPDIR=str(long))
    assert result.returncode == 2 and "Traceback" not in result.stderr
    assert f"no socket can be made in {long}" in result.stderr and "set TMPDIR" in result.stderr
    assert not [*long.iterdir()]


def test_help_lists_the_commands_in_the_order_of_their_use() -> None:
    result = framehold("--help").stdout
    names = re.findall(r"(?m)^│ (\w+) {2,}\S", result)
    at_hand = ["up", "call", "list", "doctor", "journal", "node", "router", "stdio", "keys"]
    reading = ["status", "nodes", "capacity", "leases", "calls", "lease", "ring"]
    acting = ["drain", "cancel", "evict", "pause", "resume"]
    assert names[: len([*at_hand, *reading, *acting])] == [*at_hand, *reading, *acting]


@pytest.mark.load
def test_commands_that_measure_come_last() -> None:
    names = re.findall(r"(?m)^│ (\w+) {2,}\S", framehold("--help").stdout)
    assert names[-3:] == ["resume", "load", "bench"]


def test_a_node_says_where_it_keeps_things() -> None:
    """The store is printed without its password. The log warns about a setting that nothing reads."""
    store = "redis://user:hunter2@127.0.0.1:1"
    child = subprocess.Popen(
        [*RUN, "node", "framehold.examples.booking", "--port", "0", "--store", store],
        cwd=ROOT,
        env=environment(FRAMEHOLD_KEYS="k" * 32, FRAMEHOLD_LEASE_TLT="5"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with child:
        assert child.stdout is not None
        assert child.stderr is not None
        text, logged = child.stdout.readline().decode(), child.stderr.readline().decode()
        child.kill()
    assert "FRAMEHOLD_LEASE_TLT is set, and nothing reads it; did you mean FRAMEHOLD_LEASE_TTL?" in logged
    assert text.endswith(", store: redis://127.0.0.1:1\n") and " serves http://127.0.0.1:" in text
