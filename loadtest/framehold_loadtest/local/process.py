"""The one launcher of child processes: a child can be killed, paused and started again under the same name.

Law: no child outlives its parent. `stop` ends it by its process id, and the kernel kills it if the thread that started
it ends first. So every child is started from the thread that lives longest. Its error stream goes to its log.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from framehold_loadtest.config import inherited

_PR_SET_PDEATHSIG = 1
_START_SECONDS = 60.0
_STOP_SECONDS = 40.0


class NotAvailable(Exception):
    """Something could not be started or measured; the message is the reason."""


class Process:
    """One child process, or its successor of the same name.

    `settings` are added to the environment, of which no `FRAMEHOLD_*` is inherited. With a `core` the child runs on
    that core only. With `piped` its output can be read by `announced` or `output`, else it goes to the log.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        log: Path,
        settings: Mapping[str, str],
        piped: bool = True,
        core: int | None = None,
    ) -> None:
        self.name, self._argv, self.log, self._settings = name, list(argv), log, dict(settings)
        self._piped, self._core = piped, core
        self.port = 0
        """The port of 127.0.0.1 that it serves, once that is known."""
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its process id; 0 while it does not run."""
        return self._child.pid if self._child is not None and self._child.poll() is None else 0

    def start(self) -> None:
        """Start it without waiting until it serves."""
        libc = ctypes.CDLL(None)

        def before_exec() -> None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if self._core is not None:
                os.sched_setaffinity(0, {self._core})

        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self._argv,
                env=inherited() | self._settings,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if self._piped else log,
                stderr=log,
                preexec_fn=before_exec,  # noqa: PLW1509 - it calls nothing that another thread may hold a lock of
            )

    def announced(self) -> str:
        """The first line that it prints.

        Raises:
            NotAvailable: it ended, or printed nothing in time.
        """
        assert self._child is not None and self._child.stdout is not None
        ready, _, _ = select.select([self._child.stdout], [], [], _START_SECONDS)
        line = self._child.stdout.readline().decode().strip() if ready else ""
        if not line:
            raise NotAvailable(f"{self.name} did not start{self.last_words()}")
        return line

    def output(self, seconds: float) -> bytes:
        """All that it prints until it ends.

        Raises:
            NotAvailable: it failed, or did not end in time.
        """
        assert self._child is not None
        try:
            printed, _ = self._child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise NotAvailable(f"{self.name} did not end in {seconds:.0f} s") from None
        if code := self._child.returncode:
            raise NotAvailable(last_line(self.log) or f"{self.name} ended with code {code}")
        return printed

    def last_words(self) -> str:
        """The last line of its log as the end of a sentence; empty if there is none."""
        line = last_line(self.log)
        return f"; its last line: {line}" if line else ""

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self.pid:
            os.kill(self.pid, number)

    def pause(self) -> None:
        """Stop it with SIGSTOP; its connections stay open."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue it with SIGCONT."""
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, and wait for its end."""
        self.signal(signal.SIGKILL)
        self._buried(_STOP_SECONDS)

    def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """Ask it to end, wait, and kill it if that takes longer than `seconds`. Idempotent."""
        self.signal(signal.SIGTERM)
        self.resume()
        self._buried(seconds)

    def ended(self) -> int | None:
        """Its exit code; None while it runs, or if it was never started."""
        return None if self._child is None else self._child.poll()

    def wait(self, seconds: float) -> int | None:
        """Wait for its end; its exit code, None if it still runs."""
        assert self._child is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(seconds)
        return self._child.poll()

    def _buried(self, seconds: float) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if child.stdout is not None:
            child.stdout.close()


def python(module: str, *words: str) -> list[str]:
    """The command that runs a module with this interpreter."""
    return [sys.executable, "-m", module, *words]


def within(seconds: float) -> float:
    """The deadline that is so many seconds away, on the monotonic clock."""
    return time.monotonic() + seconds


def last_line(log: Path) -> str:
    """The last line of a log that is not blank; empty if there is none."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
