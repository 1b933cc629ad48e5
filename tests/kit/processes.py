"""Child processes of tests: `Child` starts one, waits for what it does, and ends it by its id.

A child runs in a session of its own: Ctrl-C reaches pytest alone, whose fixtures then end what they started. Whoever
waits for a child waits for an event, with a deadline that a busy machine keeps too; a child that ends meanwhile fails
the wait at once, and the message shows what it wrote.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Self

from tests.kit.forks import ForkServer, forks

ROOT = Path(__file__).resolve().parents[2]
RUN = (sys.executable, "-m", "framehold")
"""How the command line is run."""
DEADLINE = 60.0
"""Seconds after which something that should have happened has not, on a machine with other work too."""
_FORKS = ForkServer()
atexit.register(_FORKS.close)
_TAIL = 60
"""Lines of a log that a failure shows."""


async def until(holds: Callable[[], object], what: str, deadline: float = DEADLINE) -> Any:
    """Look again and again until `holds()` is true, and give that back."""
    end = time.monotonic() + deadline
    while not (found := holds()):
        assert time.monotonic() < end, f"{what}: not within {deadline:g} s"
        await asyncio.sleep(0.01)
    return found


def python_path() -> dict[str, str]:
    """The variable by which a child can import what this process can."""
    return {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}


def environment(**changed: str) -> dict[str, str]:
    """This process's environment without settings of ours, so that nothing but the test decides."""
    usual = {name: value for name, value in os.environ.items() if not name.startswith("FRAMEHOLD_")}
    return {**usual, **python_path(), **changed}


def finished(
    command: Sequence[str], cwd: Path = ROOT, answers: str = "", **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with `answers` on its standard input, and these settings of ours alone.

    Raises:
        subprocess.TimeoutExpired: it had not ended in time, and was killed.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(answers.encode())
        given.seek(0)
        child = started(command, cwd, environment(**settings), (given, out, err))
        try:
            code = child.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(list(command), code, out.read().decode(), err.read().decode())


def started(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], files: tuple[IO[bytes], IO[bytes], IO[bytes]]
) -> subprocess.Popen[bytes]:
    """A new process with these standard files; forked from one that has imported what it needs, where that can be."""
    if forks(command, env):
        return _FORKS.start(command, str(cwd), env, files)
    given, out, err = files
    return subprocess.Popen(command, cwd=cwd, env=env, stdin=given, stdout=out, stderr=err, start_new_session=True)


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
        fresh = {one for one, result in parents.items() if result[1:2] and int(result[1]) in fresh and result[0] != "Z"}
        found |= fresh
    return found


class Child:
    """One child process, or the next one of the same command. What it writes goes to `output`, which is added to.

    With `announces` its standard output is a pipe instead, whose first line says that it serves. Standard input is
    empty. Without `env` it has the environment of this process."""

    def __init__(
        self,
        command: Sequence[str],
        output: Path,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
        announces: bool = False,
    ) -> None:
        self._command, self._output, self._env, self._cwd = list(command), output, env, cwd
        self._announces = announces
        self._child: subprocess.Popen[bytes] | None = None

    def under(self, *command: str) -> Self:
        """Let another command start it, which stands before its own."""
        self._command = [*command, *self._command]
        return self

    def launch(self) -> None:
        """Start it, and wait for nothing."""
        env = dict(os.environ if self._env is None else self._env)
        with self._output.open("ab") as output, open(os.devnull, "rb") as nothing, ExitStack() as ours:
            out, first_line = output, None
            if self._announces:
                read, write = os.pipe()
                first_line, out = os.fdopen(read, "rb"), ours.enter_context(os.fdopen(write, "wb"))
            self._child = started(self._command, self._cwd, env, (nothing, out, output))
            self._child.stdout = first_line

    def log(self) -> str:
        """All that it wrote so far."""
        return self._output.read_text(errors="replace")

    def tail(self) -> str:
        """The end of its log, as a failure shows it."""
        return "\n".join(self.log().splitlines()[-_TAIL:])

    @property
    def pid(self) -> int:
        assert self._child is not None, "the child was not started"
        return self._child.pid

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs, and before it was started."""
        return None if self._child is None else self._child.poll()

    @property
    def alive(self) -> bool:
        """Whether its process was started, and has not ended."""
        return self._child is not None and self._child.poll() is None

    def announced(self, deadline: float = DEADLINE) -> str:
        """The first line that it prints; it blocks for `deadline` seconds at most."""
        assert self._child is not None and self._child.stdout is not None
        ready, _, _ = select.select([self._child.stdout], [], [], deadline)
        line = self._child.stdout.readline().decode().strip() if ready else ""
        what = "ended before it served" if ready else f"said nothing within {deadline:g} s"
        assert line, f"the child {what}:\n{self.tail()}"
        return line

    async def until(self, holds: Callable[[], object], what: str, deadline: float = DEADLINE) -> Any:
        """Wait until `holds()` is true, and give that back; not longer than the child lives."""

        def there() -> object:
            ended = not self.alive
            found = holds()
            assert found or not ended, f"{what}: the child ended (exit code {self.code}):\n{self.tail()}"
            return found

        return await until(there, what, deadline)

    async def ends(self, deadline: float = DEADLINE) -> int:
        """Wait until it has ended by itself; its exit code."""
        await until(lambda: not self.alive, f"the child's end\n{self.tail()}", deadline)
        assert self.code is not None, "the child was not started"
        return self.code

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def pause(self) -> None:
        """SIGSTOP: it stands still, and its connections stay open."""
        self.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """It stands still in the block, and goes on after it."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def terminate(self) -> None:
        """Ask it to end, and don't wait for it."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once; nothing of it runs any more."""
        self.stop(signal.SIGKILL)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int | None:
        """End it, and give its exit code; None if it was not started. It is killed if it takes too long. Idempotent."""
        child, self._child = self._child, None
        if child is None:
            return None
        if child.poll() is None:
            os.kill(child.pid, how)
            os.kill(child.pid, signal.SIGCONT)
        try:
            child.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if child.stdout is not None:
            child.stdout.close()
        return child.returncode
