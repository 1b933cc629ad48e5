"""`framehold up` as a child whose every descendant is accounted for."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.kit.processes import RUN, Child, alive, descendants, environment, until


class Up(Child):
    """A running `framehold up`."""

    def __init__(self, folder: Path, *arguments: str, run: Sequence[str] = RUN, **settings: str) -> None:
        env = environment(TMPDIR=str(folder), XDG_RUNTIME_DIR=str(folder), **settings)
        super().__init__([*run, "up", *arguments], folder / "up.log", env=env)
        self.seen: set[int] = set()
        self.beside: dict[str, Any] = {"XDG_RUNTIME_DIR": str(folder)}
        """In the environment of who runs commands beside it, as the same user."""

    @property
    def said(self) -> str:
        return self.log()

    async def hears(self, text: str) -> str:
        """Wait until the output contains this text."""

        def there() -> bool:
            self.seen |= descendants(self.pid)
            return text in self.said

        await self.until(there, f"{text!r} in what it says")
        return self.said

    @property
    def url(self) -> str:
        return self._found(r"router +(http://\S+)/mcp")

    def node(self, name: str) -> tuple[str, int]:
        """The address and the pid of a node, from the table."""
        return self._found(rf"{name} +(http://\S+)/mcp"), int(self._found(rf"{name} +\S+ +pid (\d+)"))

    @property
    def token(self) -> str:
        """The admin token, from the table."""
        return self._found(r"(?m)^  admin token +(\S+)$")

    def pasted(self, start: str) -> str:
        """The command in the printed text that begins with `start`, with all its lines."""
        return self._found(rf"(?m)^  ((?:\S+ -m )?\S*{start} (?:.*\\\n)*.*)$")

    def _found(self, pattern: str) -> str:
        found = re.search(pattern, self.said)
        assert found, f"{pattern} is not in:\n{self.said}"
        return found[1]

    async def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send it a signal and return its exit code. Check that none of its processes is left."""
        self.seen |= descendants(self.pid)
        start = time.monotonic()
        self.send_signal(number)
        code = await self.ends()
        assert time.monotonic() - start < 12
        await self.nothing_left()
        return code

    async def nothing_left(self) -> None:
        """Wait until each process that it started has ended."""
        assert self.seen, "nobody looked for its children"
        await until(lambda: not any(map(alive, self.seen)), "the end of all that it started")


@asynccontextmanager
async def up(folder: Path, *arguments: str, run: Sequence[str] = RUN, **settings: str) -> AsyncIterator[Up]:
    """Run `framehold up` with `arguments`, which keeps its files in `folder`; killed at the end if nobody ended it.
    `run` starts `framehold`."""
    running = Up(folder, *arguments, run=run, **settings)
    running.launch()
    try:
        yield running
    finally:
        running.kill()
