"""`docs/tutorial.md`: a reader who does what the page says sees what the page shows.

The commands run as they are printed, in a shell and in one folder. Three things differ: the fleet gets free ports, a
process id stands for `PID`, and what is installed comes from this repository and this environment, not from the
network.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

import framehold
from framehold_cli.local.ports import free as free_port
from framehold_cli.serve import target
from tests.cli.terminal import Terminal
from tests.kit.client import Caller
from tests.kit.nodes import served
from tests.kit.processes import DEADLINE, ROOT, Child, environment
from tests.tutorials.page import Block, blocks

pytestmark = pytest.mark.anyio

PAGE = "tutorial.md"
INSTALL = blocks(PAGE, "1. Install")
READY = "Ctrl-C stops everything."
# Where a line of the page ends with what the reader types: after the field's text, or after its choices.
_PROMPT = re.compile(r"(  .*(?:\?|\):) ?)(\w*)")
_FRAMEHOLD = """#!/bin/sh
case $1 in
  up) shift; exec {python} -m framehold up --port {port} "$@" ;;
  call | status) command=$1; shift; exec {python} -m framehold $command --url http://127.0.0.1:{port}/mcp "$@" ;;
  *) exec {python} -m framehold "$@" ;;
esac
"""


def settled(text: str) -> str:
    """Without what differs from run to run: which node it is, whether the router or a node found it after a kill
    (`ring` or `lease`), and the router's port."""
    named = re.sub(r"node-\d", "node-N", text.replace("\r\n", "\n")).replace("[node-N, lease]", "[node-N, ring]")
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", named)


class Reader:
    """A reader of the tutorial in a folder of their own: one terminal for the fleet, one for the commands."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        programs = folder / "programs"
        programs.mkdir()
        (programs / "framehold").write_text(_FRAMEHOLD.format(python=sys.executable, port=self.port))
        (programs / "framehold").chmod(0o755)
        (programs / "python").symlink_to(sys.executable)
        # The environment that the page activates: here its packages are those of this process.
        (folder / ".venv" / "bin").mkdir(parents=True)
        (folder / ".venv" / "bin" / "activate").write_text("")
        self.settings = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(folder),
            "XDG_RUNTIME_DIR": str(folder),
        }
        self.fleets: list[Child] = []
        self.terminal: Terminal | None = None
        self.shown = ""

    async def does(self, block: Block) -> None:
        """Follow one block of the page."""
        if block.title:
            (self.folder / block.title).write_text(block.text)
        elif block.language == "text":
            await self._sees(block.text)
        elif block.text.startswith("framehold up"):
            await self._starts_a_fleet(block.text)
        elif block.text.startswith("framehold call"):
            self._leaves_the_terminal()
            self.terminal = Terminal(["sh", "-c", f"cd {self.folder} && {block.text}"], TERM="dumb", **self.settings)
        elif block.text.startswith("framehold status"):
            fleet = self.fleets[-1]
            await fleet.until(lambda: "is back" in fleet.log(), "the killed node is back")
            self._leaves_the_terminal()
            await fleet.until(lambda: self._tries(block.text), "a status that wants nothing")
        elif "PID" in block.text:
            self._run(block.text.replace("PID", str(self._pid())))
        else:
            assert block.language == "sh", f"nobody knows what to do with {block}"
            self._leaves_the_terminal()
            self._run(block.text)

    def stops(self) -> None:
        self._leaves_the_terminal()
        for fleet in self.fleets:
            fleet.stop(signal.SIGINT)

    async def _starts_a_fleet(self, command: str) -> None:
        self._leaves_the_terminal()
        if self.fleets:
            self.fleets[-1].send_signal(signal.SIGINT)
            assert await self.fleets[-1].ends() == 0
        log = self.folder / f"up-{len(self.fleets)}.log"
        fleet = Child(["sh", "-c", f"exec {command}"], log, env=environment(**self.settings), cwd=self.folder)
        self.fleets.append(fleet)
        fleet.launch()
        await fleet.until(lambda: READY in fleet.log(), READY)
        self.shown = fleet.log()

    def _run(self, command: str) -> None:
        assert self._tries(command), f"{command}: {self.shown}"

    def _tries(self, command: str) -> bool:
        done = subprocess.run(
            ["sh", "-ec", command],
            cwd=self.folder,
            env=environment(**self.settings),
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        self.shown = done.stdout + done.stderr
        return done.returncode == 0

    async def _sees(self, text: str) -> None:
        if self.terminal is None:
            missing = [line for line in settled(text).splitlines() if line not in settled(self.shown)]
            assert missing == [], f"not shown: {missing}; shown is:\n{self.shown}"
            return
        for line in text.splitlines():
            await self._line(self.terminal, line)

    async def _line(self, terminal: Terminal, line: str) -> None:
        """See a line at the terminal, and type what the page types in it."""
        prompt = _PROMPT.fullmatch(line)
        if prompt is None:
            await terminal.sees(line.partition("] ")[2] or line)
            assert settled(line) in settled(terminal.seen)
        elif answer := prompt[2]:
            await terminal.sees(prompt[1])
            terminal.types(f"{answer}\n")
        else:
            await terminal.sees(prompt[1])

    def _pid(self) -> int:
        """The process id of the node that asked the last question, from the table that the fleet printed."""
        assert self.terminal is not None
        node = re.findall(r"\[(node-\d), ", self.terminal.seen)[-1]
        [pid] = re.findall(rf"{node} .* pid (\d+)", self.shown_of_fleet())
        return int(pid)

    def shown_of_fleet(self) -> str:
        return self.fleets[-1].log()

    def _leaves_the_terminal(self) -> None:
        if self.terminal is not None:
            self.terminal.__exit__()
            self.terminal = None


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reading = Reader(tmp_path)
    try:
        yield reading
    finally:
        reading.stops()


@pytest.mark.parametrize("place", [0, 1], ids=["as it is written first", "with the marks"])
async def test_the_server_of_the_page_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    """Each of its two versions asks what the page shows, and charges once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "server", sys)  # so that it is taken out again
    path = tmp_path / "server.py"
    path.write_text([block.text for block in blocks(PAGE) if block.title == "server.py"][place])
    app = framehold.asgi(target.found(str(path)))
    async with served(app) as url, Caller(url) as caller:
        arguments = {"item": "tea"}
        first = await caller.call("order", arguments=arguments)
        second = await caller.retry("order", first.token, first.accept(sure=True), arguments=arguments)
        last = await caller.retry("order", second.token, second.accept(street="Elm"), arguments=arguments)
    assert first.messages == ["Order tea?"]
    assert second.messages == ["Thank you, paid for tea. Where shall I bring it?"]
    assert last.text == "paid for tea; it comes to Elm."
    assert (tmp_path / "charges.txt").read_text() == "tea\n"


@pytest.mark.nightly
async def test_a_reader_sees_what_the_page_shows(reader: Reader) -> None:
    """From the first file to the last test, in order. The killed call of the unmarked tool is lost; that of the marked
    tool goes on at another process, and its effect ran once."""
    rest = blocks(PAGE)[len(INSTALL) :]
    assert {block.language for block in rest} == {"python", "sh", "text"}
    for block in rest:
        await reader.does(block)
    assert len(reader.fleets) == 2


@pytest.mark.nightly
async def test_the_test_of_the_page_finds_the_mistake(reader: Reader) -> None:
    """As the page says: without `once` its test fails."""
    files = {block.title: block.text for block in blocks(PAGE) if block.title}
    marked = 'await framehold.once("charge", charge, item)'
    assert marked in files["server.py"]
    (reader.folder / "server.py").write_text(files["server.py"].replace(marked, "await charge(item)"))
    (reader.folder / "test_server.py").write_text(files["test_server.py"])
    command = [sys.executable, "-m", "pytest", "-q", "test_server.py"]
    done = subprocess.run(
        command, cwd=reader.folder, env=environment(**reader.settings), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "1 failed" in done.stdout, done.stdout + done.stderr


def packages_without_framehold(folder: Path) -> Path:
    """The packages of this environment but for Framehold itself."""
    folder.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "framehold" not in entry.name:
            (folder / entry.name).symlink_to(entry)
    return folder


@pytest.mark.nightly
def test_the_install_commands(tmp_path: Path) -> None:
    """They install what is committed in this repository, and the command runs from the new environment."""
    [block] = INSTALL
    settings = environment(
        GIT_CONFIG_COUNT="1",
        GIT_CONFIG_KEY_0=f"url.file://{ROOT}.insteadOf",
        GIT_CONFIG_VALUE_0="https://github.com/framehold/framehold",
        PIP_NO_INDEX="1",
        PIP_NO_BUILD_ISOLATION="0",  # pip reads this one the wrong way round: 0 is "without isolation"
        PIP_DISABLE_PIP_VERSION_CHECK="1",
        PYTHONPATH=str(packages_without_framehold(tmp_path / "packages")),
    )
    assert shutil.which("git"), "git is missing; install it"
    command = f"{block.text}\npython -c 'import framehold; print(framehold.__file__)'"
    done = subprocess.run(
        ["sh", "-ec", command], cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(str(tmp_path / "shop" / ".venv")), done.stdout
