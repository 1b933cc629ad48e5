"""A child process that can be killed, paused and begun again under the same name.

Law: no child outlives its parent: `stop` ends it by its process id, and the kernel kills it if the parent's starting
thread ends first. So every child is started from the thread that lives longest. What it says goes to its log.
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

from framehold_loadtest.bench.children import NotAvailable
from framehold_loadtest.config import inherited

_PR_SET_PDEATHSIG = 1
_START_SECONDS = 60.0
_STOP_SECONDS = 40.0


class Process:
    """One child, or the next of its name. `settings` are added to the environment, of which no `FRAMEHOLD_*` is
    inherited. One that does not `announce` itself says everything to its log."""

    def __init__(
        self, name: str, argv: Sequence[str], log: Path, settings: Mapping[str, str], announces: bool = True
    ) -> None:
        self.name, self._argv, self._log, self._settings = name, list(argv), log, dict(settings)
        self._announces = announces
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its process id; 0 where it does not run."""
        return self._child.pid if self._child is not None and self._child.poll() is None else 0

    def start(self) -> None:
        """Start it, and don't wait until it serves."""
        libc = ctypes.CDLL(None)

        def before_exec() -> None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

        with self._log.open("ab") as log:
            self._child = subprocess.Popen(
                self._argv,
                env=inherited() | self._settings,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if self._announces else log,
                stderr=log,
                preexec_fn=before_exec,  # noqa: PLW1509 - it calls nothing that another thread may hold a lock of
            )

    def announced(self) -> str:
        """The first line that it prints.

        Raises:
            NotAvailable: it ended, or stayed silent.
        """
        assert self._child is not None and self._child.stdout is not None
        ready, _, _ = select.select([self._child.stdout], [], [], _START_SECONDS)
        line = self._child.stdout.readline().decode().strip() if ready else ""
        if not line:
            raise NotAvailable(f"{self.name} did not start{self.last_words()}")
        return line

    def last_words(self) -> str:
        """The last line of its log, as the end of a sentence; empty if there is none."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"; it said: {lines[-1]}" if lines else ""

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self.pid:
            os.kill(self.pid, number)

    def pause(self) -> None:
        """It stands still, and its connections stay open."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """It goes on."""
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once: nothing of it runs any more."""
        self.signal(signal.SIGKILL)
        self._buried()

    def stop(self) -> None:
        """Ask it to end, wait, and kill it if that takes too long. Idempotent."""
        self.signal(signal.SIGTERM)
        self.resume()
        self._buried()

    def ended(self) -> int | None:
        """Its exit code; None while it runs, or where it was never started."""
        return None if self._child is None else self._child.poll()

    def wait(self, seconds: float) -> int | None:
        """Wait for its end; None where it still runs."""
        assert self._child is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(seconds)
        return self._child.poll()

    def _buried(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        try:
            child.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if child.stdout is not None:
            child.stdout.close()


def python(module: str, *words: str) -> list[str]:
    """The command that runs a module with this interpreter."""
    return [sys.executable, "-m", module, *words]


def within(seconds: float) -> float:
    """A deadline."""
    return time.monotonic() + seconds
