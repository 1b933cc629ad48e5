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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from framehold_loadtest.config import inherited

ROOT = Path(__file__).parents[3]
_START_SECONDS = 30.0
_STOP_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1
_PROCESS_CLOCK = 2  # clock_getcpuclockid(3) of Linux, which Python has for threads only
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
    """User and system CPU seconds of a process, all threads, from its own clock: /proc counts in hundredths.

    Raises:
        ProcessLookupError: there is no such process.
    """
    try:
        return time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)
    except OSError:
        raise ProcessLookupError(f"process {pid} has ended") from None


def rss_bytes(pid: int) -> int:
    """Resident memory of a process in bytes, from /proc."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


@contextlib.contextmanager
def serving(variant: str, core: int, settings: Mapping[str, str], *, metered: bool = False) -> Iterator[Listener]:
    """A server of `serve.VARIANTS` on a core, with `settings` added to its environment.

    Raises:
        NotAvailable: it ended, or stayed silent, before it told its port.
    """
    argv = ["framehold_loadtest.bench.serve", variant, *(["--metered"] if metered else [])]
    with announced(argv, core, settings) as server:
        yield server


@contextlib.contextmanager
def announced(
    module: Sequence[str], core: int, settings: Mapping[str, str], port_of: Callable[[str], int] = int
) -> Iterator[Listener]:
    """A module run with its arguments on a core, which prints one line when it listens; `port_of` finds its port there.

    Raises:
        NotAvailable: it ended, or stayed silent, before it printed that line.
    """
    with announcing([sys.executable, "-m", *module], core, settings, port_of) as listener:
        yield listener


@contextlib.contextmanager
def announcing(
    argv: Sequence[str], core: int, settings: Mapping[str, str], port_of: Callable[[str], int] = int
) -> Iterator[Listener]:
    """`announced`, of any program."""
    with _child(argv, core, settings) as (process, errors):
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], _START_SECONDS)
        line = process.stdout.readline().strip() if ready else b""
        if not line:
            raise NotAvailable(_last_line(errors) or f"the server did not start in {_START_SECONDS:.0f} s")
        yield Listener(process.pid, port_of(line.decode()), errors)


@contextlib.contextmanager
def haproxy_server(core: int, config: str, port: int, settings: Mapping[str, str]) -> Iterator[Listener]:
    """HAProxy with one thread on a core, as `config` says, which makes it listen on `port`.

    Raises:
        NotAvailable: it is not installed, or ended, or does not accept connections.
    """
    binary = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if binary is None:
        raise NotAvailable("install haproxy")
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as file:
        file.write(config)
        file.flush()
        argv = [binary, "-db", "-f", file.name]
        with accepting(argv, core, settings, port, "haproxy does not accept connections") as listener:
            yield listener


@contextlib.contextmanager
def accepting(
    argv: Sequence[str], core: int, settings: Mapping[str, str], port: int, otherwise: str
) -> Iterator[Listener]:
    """A program on a core that says nothing when it listens: once its port accepts connections.

    Raises:
        NotAvailable: with `otherwise`, where it ended before, or takes too long.
    """
    with _child(argv, core, settings) as (process, errors):
        _await(lambda: _accepts(port), process, otherwise)
        yield Listener(process.pid, port, errors)


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody has now."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(probe.getsockname()[1]) for probe in probes]


@contextlib.contextmanager
def redis_server(core: int) -> Iterator[Listener]:
    """A private Redis without persistence on a core.

    Raises:
        NotAvailable: redis-server is not installed, or does not answer.
    """
    binary = shutil.which("redis-server")
    if binary is None:
        raise NotAvailable("redis-server is not installed")
    (port,) = free_ports(1)
    options = {"port": str(port), "bind": "127.0.0.1", "save": "", "appendonly": "no", "loglevel": "warning"}
    with tempfile.TemporaryDirectory() as folder:
        argv = [binary, "--dir", folder, *(word for key, value in options.items() for word in (f"--{key}", value))]
        with _child(argv, core, {}) as (process, errors):
            _await(lambda: _pongs(port), process, "the private redis-server does not answer")
            yield Listener(process.pid, port, errors)


def run_json(module: str, arguments: Sequence[str], core: int, timeout: float) -> Any:
    """Run a module of this package on a core to its end, and return the JSON that it printed.

    Raises:
        NotAvailable: it failed, or took longer than `timeout` seconds.
    """
    argv = [sys.executable, "-m", f"framehold_loadtest.bench.{module}", *arguments]
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

    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            argv,
            cwd=ROOT,
            env=inherited() | dict(settings),
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


def _await(holds: Callable[[], bool], process: subprocess.Popen[bytes], otherwise: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if holds():
            return
        time.sleep(0.02)
    raise NotAvailable(otherwise)


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _pongs(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as link:
        link.sendall(b"PING\r\n")
        return link.recv(64).startswith(b"+PONG")
    return False


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
