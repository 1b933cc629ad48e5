"""Processes as /proc shows them, and `framehold up` as a child whose every descendant is accounted for."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.node.nodes import ROOT, until

RUN = (sys.executable, "-m", "framehold")
START = 60.0
"""Seconds for a whole fleet on a busy machine."""


def stat(pid: int) -> list[str]:
    """What /proc says behind the name: state, parent, ...; nothing if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def alive(pid: int) -> bool:
    return stat(pid)[:1] not in ([], ["Z"])


def descendants(pid: int) -> set[int]:
    """All living processes below `pid`."""
    parents = {int(entry): stat(int(entry)) for entry in os.listdir("/proc") if entry.isdigit()}
    found, fresh = set[int](), {pid}
    while fresh:
        fresh = {one for one, told in parents.items() if told[1:2] and int(told[1]) in fresh and told[0] != "Z"}
        found |= fresh
    return found


def environment(**changed: str) -> dict[str, str]:
    """This process's environment without settings of ours, so that nothing but the test decides."""
    usual = {name: value for name, value in os.environ.items() if not name.startswith("FRAMEHOLD_")}
    return {**usual, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry), **changed}


class Up:
    """A running `framehold up`."""

    def __init__(self, child: subprocess.Popen[bytes], log: Path) -> None:
        self.child, self._log = child, log
        self.seen: set[int] = set()
        self.beside = {"XDG_RUNTIME_DIR": str(log.parent)}
        """In the environment of who runs commands beside it, as the same user."""

    @property
    def said(self) -> str:
        return self._log.read_text()

    async def hears(self, text: str, deadline: float = START) -> str:
        """Wait until it has said so."""

        def there() -> bool:
            self.seen |= descendants(self.child.pid)
            assert text in self.said or self.child.poll() is None, self.said
            return text in self.said

        await until(there, f"{text!r} in what it says", deadline)
        return self.said

    @property
    def url(self) -> str:
        return self._found(r"router +(http://\S+)/mcp")

    def node(self, name: str) -> tuple[str, int]:
        """A node's address and process, as the table shows them."""
        return self._found(rf"{name} +(http://\S+)/mcp"), int(self._found(rf"{name} +\S+ +pid (\d+)"))

    @property
    def token(self) -> str:
        """The admin token, as the table shows it."""
        return self._found(r"(?m)^  admin token +(\S+)$")

    def pasted(self, start: str) -> str:
        """The command in the table that begins with `start`, over all its lines."""
        return self._found(rf"(?m)^  ((?:\S+ -m )?\S*{start} (?:.*\\\n)*.*)$")

    def _found(self, pattern: str) -> str:
        found = re.search(pattern, self.said)
        assert found, f"{pattern} is not in:\n{self.said}"
        return found[1]

    async def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Signal it alone; its exit code. Nothing that it started is left."""
        self.seen |= descendants(self.child.pid)
        start = time.monotonic()
        self.child.send_signal(number)
        await until(lambda: self.child.poll() is not None, "its end")
        assert time.monotonic() - start < 12
        await self.nothing_left()
        assert self.child.returncode is not None
        return self.child.returncode

    async def nothing_left(self) -> None:
        assert self.seen, "nobody looked for its children"
        await until(lambda: not any(map(alive, self.seen)), "the end of all that it started", 5)


@asynccontextmanager
async def up(folder: Path, *arguments: str, **settings: str) -> AsyncIterator[Up]:
    """Run `framehold up` with `arguments` in `folder`; killed at the end if nobody ended it."""
    log = folder / "up.log"
    with log.open("wb") as out:
        child = subprocess.Popen(
            [*RUN, "up", *arguments],
            cwd=ROOT,
            env=environment(TMPDIR=str(folder), XDG_RUNTIME_DIR=str(folder), **settings),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    running = Up(child, log)
    try:
        yield running
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
