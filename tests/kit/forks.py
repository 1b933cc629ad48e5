"""A server that forks `framehold` processes for tests: it has imported what they need, so a start costs 0.05 s of CPU
in place of 1.4 s.

What it forks is a process of its own: it has its own pid, session, environment, folder and open files, and it runs the
same entry point. `framehold up` is not forked, and starts its router and nodes itself: that is how a start is tested.

    1. pytest sends the words, the folder, the environment, and four open files: standard input, output, error, and the
       writing end of a pipe
    2. the server forks, answers with the pid, and keeps the pipe
    3. the child takes the three files as its own, and runs
    4. when the child has ended, the server writes its status into the pipe
    5. when pytest has read that and closes its end, the server lets the kernel forget the child

The server ends with the process that started it: its socket is closed then.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import io
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Any

from framehold_store.system_clock import now

_PRELOADED = ("framehold.http.app", "framehold_router.app", "framehold_cli.commands", "uvicorn", "uvloop", "mcp.client")
_KNOW_THE_START = ("framehold.version", "framehold.engine.runtime")
_ORDINARY = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
"""Settings of Python itself that a fork can follow."""
_MAX = 256 * 1024
"""Bytes of a request: words and environment."""
_FILES = 4


class Forked(subprocess.Popen[bytes]):
    """A forked process, as one that this process started itself: only how its status is learned differs."""

    def __init__(self, command: Sequence[str], pid: int, status: int) -> None:
        self.args, self.pid, self.returncode = list(command), pid, None
        self.stdin = self.stdout = self.stderr = None
        self._status, self._child_created, self._waitpid_lock = status, False, threading.Lock()
        os.set_blocking(status, False)

    def poll(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None while it runs."""
        with self._waitpid_lock:
            if self.returncode is None:
                with contextlib.suppress(BlockingIOError):
                    read = os.read(self._status, 16)
                    os.close(self._status)
                    # Without a status the server itself has ended, and took what it knew with it.
                    self.returncode = int(read) if read else -signal.SIGKILL
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired: it still runs after so many seconds.
        """
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._status, selectors.EVENT_READ)
                selector.select(timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code


class ForkServer:
    """The server, started when it is first asked. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._way: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None

    def start(
        self, command: Sequence[str], cwd: str, env: Mapping[str, str], files: tuple[IO[bytes], IO[bytes], IO[bytes]]
    ) -> Forked:
        """Fork a process that runs `command`, one that `forks` is true of. `files`: its standard ones."""
        request = json.dumps([list(command), cwd, dict(env)]).encode()
        assert len(request) <= _MAX, "an environment of more than 256 KiB"
        read, write = os.pipe()
        with self._lock, os.fdopen(write, "wb") as status:
            way = self._reached()
            handed = array.array("i", [*(file.fileno() for file in files), status.fileno()])
            way.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handed)])
            pid = int(way.recv(16))
        return Forked(command, pid, read)

    def _reached(self) -> socket.socket:
        """The socket to the server."""
        if self._way is None or self._server is None or self._server.poll() is not None:
            self._way, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._way.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _MAX)
            with theirs:
                command = [sys.executable, __file__, str(theirs.fileno())]
                env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
                self._server = subprocess.Popen(command, env=env, pass_fds=[theirs.fileno()], start_new_session=True)
        return self._way

    def close(self) -> None:
        """End the server, if it was started."""
        if self._way is not None and self._server is not None:
            self._way.close()
            self._server.wait()


def forks(command: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether the server may run it: `python -m framehold ...`, by this Python, with its ordinary settings."""
    odd = {name for name in env if name.startswith("PYTHON")} - _ORDINARY
    return tuple(command[:3]) == (sys.executable, "-m", "framehold") and list(command[3:4]) != ["up"] and not odd


def _served(way: socket.socket) -> tuple[list[str], str, dict[str, str], list[int]] | None:
    """Fork for each request. In a child: what it is to be, and its files. In the server: None, at the end."""
    with selectors.DefaultSelector() as selector:
        selector.register(way, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is way:
                    data, handed, _, _ = socket.recv_fds(way, _MAX, _FILES)
                    if not data:
                        return None
                    pid = os.fork()
                    if pid == 0:
                        words, cwd, env = json.loads(data)
                        return words, cwd, env, handed
                    selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, handed.pop()))
                    for each in handed:
                        os.close(each)
                    way.send(str(pid).encode())
                elif isinstance(key.data, tuple):
                    _ended(selector, key)
                else:
                    # Its status was read: let the kernel forget the child.
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    os.waitpid(key.data, 0)


def _ended(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    """Say how a child ended. It stays a zombie: so nobody else gets its pid before the status was read."""
    pid, status = key.data
    result = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert result is not None
    code = result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
    selector.unregister(key.fileobj)
    os.close(key.fd)
    with contextlib.suppress(BrokenPipeError):
        os.write(status, str(code).encode())
    # Its reading end is closed when the status was read: epoll tells that of a writing end, too.
    selector.register(status, selectors.EVENT_READ, pid)


def _become(cwd: str, env: dict[str, str], handed: list[int], base: list[str]) -> None:
    """Be what a new Python is: files, session, folder, environment, path, streams."""
    os.setsid()
    for target, file in enumerate(handed[:3]):
        os.dup2(file, target)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    own = [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:] = [cwd, *own, *base]
    importlib.invalidate_caches()
    for name in _KNOW_THE_START:
        sys.modules[name].STARTED = now()  # type: ignore[attr-defined]  # a constant of these modules
    # As `python -m` opens them.
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), line_buffering=os.isatty(1))
    sys.stdout.reconfigure(write_through=bool(env.get("PYTHONUNBUFFERED")))
    error: Any = io.BufferedWriter(io.FileIO(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(error, errors="backslashreplace", line_buffering=True)


def main() -> None:
    """Serve, and in each child run what it is to be."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    base = sys.path[1:]
    for name in _PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as way:
        job = _served(way)
        if job is None:
            return
        way.detach()
    words, cwd, env, handed = job
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _become(cwd, env, handed, base)
    sys.argv[:] = words[2:]
    runpy.run_module("framehold", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
