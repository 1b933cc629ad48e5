"""One process of a local fleet: in a session of its own, heard line by line, and never left behind.

The law: a child ends no later than its supervisor. A session of its own keeps the terminal's Ctrl-C from it, so the
supervisor alone decides the order; on Linux the kernel kills it when the supervisor dies, by whatever signal.
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
_KEPT = 20
"""Lines of output that are kept for whoever asks why a child died."""
_LONGEST = 64 * 1024
"""Bytes after which a line is told although it hasn't ended."""

Hear = Callable[[str], None]


@dataclass(frozen=True)
class Spec:
    """A process to run. `environment` is added to this process's own, and is where secrets go: a command line is
    everyone's to read. `loss` says what dies with it, in a few words. Whoever is not `heard` talks only when its start
    fails. `ends` is the signal that it ends by."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    ready: Callable[[], Awaitable[bool]] | None = None
    loss: str = ""
    heard: bool = True
    ends: signal.Signals = signal.SIGTERM


class Child:
    """One life of a process. Until `release` its lines are kept, not told: whoever starts well has nothing to say."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, hear: Hear) -> None:
        self.name, self._process, self._hear = name, process, hear
        self._held: deque[str] | None = deque(maxlen=_KEPT)
        self._listening: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, spec: Spec, hear: Hear) -> Child:
        """Start it.

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
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        child = cls(spec.name, process, hear)
        child.hear(reading)
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def ended(self) -> int:
        """Its exit code, negative for a signal, as soon as it ends. What it left running in its session is killed."""
        code = await self._process.wait()
        _signal_group(self.pid, signal.SIGKILL)
        if self._listening is not None:
            # Its last words are in the pipe; a grandchild that keeps the pipe open is not waited for.
            await asyncio.wait((self._listening,), timeout=0.5)
            self._listening.cancel()
        return code

    def send(self, number: signal.Signals) -> None:
        """Signal it, if it lives."""
        if self.alive:
            try:
                self._process.send_signal(number)
            except ProcessLookupError:
                pass

    def release(self) -> None:
        """Tell what was kept, and from here on everything at once."""
        held, self._held = self._held, None
        for line in held or ():
            self._hear(line)

    def last_lines(self) -> list[str]:
        """What it said and nobody heard."""
        return list(self._held or ())

    def hear(self, pipe: int) -> None:
        """Begin to pass on what the process says."""
        self._listening = asyncio.create_task(self._listen(pipe), name=f"output of {self.name}")

    async def _listen(self, pipe: int) -> None:
        stream = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(pipe, "rb", 0)
        )
        rest = b""
        try:
            while data := await stream.read(_LONGEST):
                *lines, rest = (rest + data).split(b"\n")
                if len(rest) > _LONGEST:
                    lines, rest = [*lines, rest], b""
                for line in lines:
                    self._tell(line)
        finally:
            if rest:
                self._tell(rest)
            transport.close()

    def _tell(self, raw: bytes) -> None:
        line = raw.decode("utf-8", "replace").rstrip()
        if self._held is None:
            self._hear(line)
        else:
            self._held.append(line)


def cause(code: int) -> str:
    """How a process ended, in words."""
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
    """What a forked child does before it becomes the program. Everything is looked up before the fork."""
    if sys.platform != "linux":
        return None
    prctl: Any = ctypes.CDLL(None, use_errno=True).prctl
    parent, getppid, leave, kill = os.getpid(), os.getppid, os._exit, int(signal.SIGKILL)
    listen, interrupt, default = signal.signal, signal.SIGINT, signal.SIG_DFL

    def bind() -> None:
        # A shell's background jobs ignore it, and so would a child that has not got round to its own handler.
        listen(interrupt, default)
        prctl(_PR_SET_PDEATHSIG, kill, 0, 0, 0)
        # The parent may have died between the fork and this line.
        if getppid() != parent:
            leave(1)

    return bind
