"""A child process at a terminal. The test reads what the child shows, and types."""

from __future__ import annotations

import os
import pty
import signal
from collections.abc import Sequence

from tests.kit.processes import ROOT, environment, started, stat, until


class Terminal:
    """A child whose standard streams are a terminal. The terminal is not the child's controlling one, because unread
    output would vanish with the process."""

    def __init__(self, command: Sequence[str], **settings: str) -> None:
        self._master, slave = pty.openpty()
        self._slave = os.fdopen(slave, "r+b", buffering=0)
        self._child = started(command, ROOT, environment(**settings), (self._slave, self._slave, self._slave))
        os.set_blocking(self._master, False)
        self.seen = ""

    async def sees(self, text: str, after: str = "") -> None:
        """Wait until the terminal shows `text`. With `after`, only text behind the last occurrence of `after`
        counts."""

        def there() -> bool:
            ended, unread = self._child.poll() is not None, self.reads()
            found = text in (self.seen.rpartition(after)[2] if after else self.seen)
            assert found or unread or not ended, f"the child ended without {text!r}: {self.seen!r}"
            return found

        await until(there, f"{text!r} in what it shows")

    def reads(self) -> bool:
        """Add what it shows now to `seen`; whether that was anything."""
        try:
            self.seen += os.read(self._master, 65536).decode()
        except OSError:
            return False
        return True

    def types(self, text: str) -> None:
        os.write(self._master, text.encode())

    async def interrupts(self) -> None:
        """Send SIGINT while the child waits for keys. A signal between two keys is noticed only at the next key."""
        await until(lambda: stat(self._child.pid)[:1] == ["S"], "its wait for keys")
        self._child.send_signal(signal.SIGINT)

    async def leaves(self) -> int:
        """Wait until the child has ended. Return its exit code."""
        await until(lambda: self._child.poll() is not None, "its end")
        assert self._child.returncode is not None
        return self._child.returncode

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.wait()
        os.close(self._master)
        self._slave.close()
