"""Child processes: pinned to a core, listening on 127.0.0.1 only, ended by their process id.

Law: no child outlives its parent. Leaving the context ends it, and the kernel kills it if the parent dies first.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
_START_SECONDS = 30.0
_STOP_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class NotAvailable(Exception):
    """Something could not be measured; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Cores:
    """The core of the measured server, and the one that drives it."""

    server: int
    load: int


@dataclass(frozen=True, slots=True)
class Listener:
    """A running child that serves a port of 127.0.0.1."""

    pid: int
    port: int
    errors: IO[bytes]

    def last_words(self) -> str:
        """The last line that the child wrote to its error stream, as the end of a sentence; empty if there is none."""
        line = _last_line(self.errors)
        return f"; the server said: {line}" if line else ""


def pick_cores() -> Cores:
    """The first and the last core that this process may use: the same one if there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    return Cores(server=usable[0], load=usable[min(1, len(usable) - 1)])


def cpu_seconds(pid: int) -> float:
    """User and system CPU seconds of a process, from /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def rss_bytes(pid: int) -> int:
    """Resident memory of a process in bytes, from /proc."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


@contextlib.contextmanager
def serving(variant: str, core: int, settings: Mapping[str, str], *, metered: bool = False) -> Iterator[Listener]:
    """A server of `serve.VARIANTS` on a core, with `settings` added to its environment.

    Raises:
        NotAvailable: it ended, or stayed silent, before it told its port.
    """
    argv = [sys.executable, "-m", "loadtest.bench.serve", variant, *(["--metered"] if metered else [])]
    with _child(argv, core, settings) as (process, errors):
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], _START_SECONDS)
        line = process.stdout.readline().strip() if ready else b""
        if not line:
            raise NotAvailable(_last_line(errors) or f"the server did not start in {_START_SECONDS:.0f} s")
        yield Listener(process.pid, int(line), errors)


@contextlib.contextmanager
def redis_server(core: int) -> Iterator[Listener]:
    """A private Redis without persistence on a core.

    Raises:
        NotAvailable: redis-server is not installed, or does not answer.
    """
    binary = shutil.which("redis-server")
    if binary is None:
        raise NotAvailable("redis-server is not installed")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    options = {"port": str(port), "bind": "127.0.0.1", "save": "", "appendonly": "no", "loglevel": "warning"}
    with tempfile.TemporaryDirectory() as folder:
        argv = [binary, "--dir", folder, *(word for key, value in options.items() for word in (f"--{key}", value))]
        with _child(argv, core, {}) as (process, errors):
            _await_pong(port, process)
            yield Listener(process.pid, port, errors)


def run_json(module: str, arguments: Sequence[str], core: int, timeout: float) -> Any:
    """Run a module of this package on a core to its end, and return the JSON that it printed.

    Raises:
        NotAvailable: it failed, or took longer than `timeout` seconds.
    """
    argv = [sys.executable, "-m", f"loadtest.bench.{module}", *arguments]
    with _child(argv, core, {}) as (process, errors):
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise NotAvailable(f"{module} did not end in {timeout:.0f} s") from None
        if process.returncode != 0:
            raise NotAvailable(_last_line(errors) or f"{module} ended with code {process.returncode}")
        return json.loads(output)


@contextlib.contextmanager
def _child(
    argv: Sequence[str], core: int, settings: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    libc = ctypes.CDLL(None, use_errno=True)

    def before_exec() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.sched_setaffinity(0, {core})

    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FRAMEHOLD_")}
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            argv,
            cwd=ROOT,
            env=inherited | dict(settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            preexec_fn=before_exec,  # noqa: PLW1509 - the benchmark itself has one thread
        )
        try:
            yield process, errors
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _await_pong(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as link:
            link.sendall(b"PING\r\n")
            if link.recv(64).startswith(b"+PONG"):
                return
        time.sleep(0.02)
    raise NotAvailable("the private redis-server does not answer")


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
