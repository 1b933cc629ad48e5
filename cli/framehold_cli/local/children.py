"""One process of a local fleet. Its output is read line by line, and it never outlives its supervisor.

The law: a child ends no later than its supervisor. Each child has a session of its own, so the terminal's Ctrl-C does
not reach it, and the supervisor alone decides the order of the ends. On Linux the kernel kills the child when the
supervisor dies, whatever the cause.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_PR_SET_PDEATHSIG = 1
_MAX_HELD_LINES = 20
"""Lines of output that are kept, to explain the death of a child."""
_MAX_LINE_BYTES = 64 * 1024
"""Bytes after which a line is passed on although it hasn't ended."""

OnLine = Callable[[str], None]
"""Receives one line of a child's output, without its line end."""


@dataclass(frozen=True)
class Spec:
    """A process to run.

    `environment` is added to this process's own environment. Secrets go there, because every user can read a command
    line. `ready` checks whether the process can be used; None means at once. `loss` says in a few words what is lost
    when the process dies. Without `shows_output` its output is shown only when its start fails. `stop_signal` asks it
    to end."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    ready: Callable[[], Awaitable[bool]] | None = None
    loss: str = ""
    shows_output: bool = True
    stop_signal: signal.Signals = signal.SIGTERM


class Child:
    """One life of a process. Until `release` its lines are held back: the output of a good start is of no interest."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, on_line: OnLine) -> None:
        self.name = name
        self._process = process
        self._on_line = on_line
        self._held_lines: deque[str] | None = deque(maxlen=_MAX_HELD_LINES)
        self.recent: deque[str] = deque(maxlen=_MAX_HELD_LINES)
        """The last lines of its output, whether or not they were passed on."""
        self._reading_task: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, spec: Spec, on_line: OnLine, inherits: tuple[int, ...] = ()) -> Child:
        """Start the process of `spec`. It inherits these file descriptors.

        Raises:
            OSError: there is no such program.
        """
        reading, writing = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *spec.command,
                stdin=asyncio.subprocess.DEVNULL,
                # A pipe of our own: asyncio would call a child alive for as long as a grandchild holds its output.
                stdout=writing,
                stderr=writing,
                env={**os.environ, **spec.environment},
                start_new_session=True,
                preexec_fn=die_with_parent(),
                pass_fds=inherits,
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        child = cls(spec.name, process, on_line)
        child.read(reading)
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def exit_code(self) -> int:
        """Wait for the end of the process and return its exit code; a signal is a negative number.

        Processes that it left running in its session are killed."""
        code = await self._process.wait()
        _signal_group(self.pid, signal.SIGKILL)
        if self._reading_task is not None:
            # Its last lines are in the pipe. A grandchild may keep the pipe open, so the wait for them is short.
            await asyncio.wait((self._reading_task,), timeout=0.5)
            self._reading_task.cancel()
        return code

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it is alive."""
        if self.alive:
            try:
                self._process.send_signal(number)
            except ProcessLookupError:
                pass

    def kill(self) -> None:
        """Kill the process, if it is alive."""
        self.send(signal.SIGKILL)

    def release(self) -> None:
        """Pass on the lines that were held back. From now on each line is passed on at once."""
        held_lines, self._held_lines = self._held_lines, None
        for line in held_lines or ():
            self._on_line(line)

    def last_lines(self) -> list[str]:
        """The lines that are still held back; empty after `release`."""
        return list(self._held_lines or ())

    def read(self, pipe: int) -> None:
        """Begin to read the process's output from the file descriptor `pipe`."""
        self._reading_task = asyncio.create_task(self._read_output(pipe), name=f"output of {self.name}")

    async def _read_output(self, pipe: int) -> None:
        stream = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(pipe, "rb", 0)
        )
        rest = b""
        try:
            while data := await stream.read(_MAX_LINE_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                if len(rest) > _MAX_LINE_BYTES:
                    lines, rest = [*lines, rest], b""
                for line in lines:
                    self._pass_on(line)
        finally:
            if rest:
                self._pass_on(rest)
            transport.close()

    def _pass_on(self, raw: bytes) -> None:
        line = raw.decode("utf-8", "replace").rstrip()
        self.recent.append(line)
        if self._held_lines is None:
            self._on_line(line)
        else:
            self._held_lines.append(line)


def cause(code: int) -> str:
    """The cause of a process's end, in words: its exit code, or the name of the signal."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def die_with_parent() -> Callable[[], None] | None:
    """A function that a forked child runs before it executes its program; None on systems other than Linux.

    It makes the kernel kill the child when its parent dies. All names are looked up before the fork, because little is
    safe after it."""
    if sys.platform != "linux":
        return None
    prctl: Any = ctypes.CDLL(None, use_errno=True).prctl
    parent, getppid, leave, kill = os.getpid(), os.getppid, os._exit, int(signal.SIGKILL)
    listen, interrupt, default = signal.signal, signal.SIGINT, signal.SIG_DFL

    def bind() -> None:
        # Background jobs of a shell ignore SIGINT. A child would inherit that until it installs its own handler.
        listen(interrupt, default)
        prctl(_PR_SET_PDEATHSIG, kill, 0, 0, 0)
        # The parent may have died between the fork and this line.
        if getppid() != parent:
            leave(1)

    return bind
