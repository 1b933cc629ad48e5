"""Programs that listen on 127.0.0.1, each for as long as its context lasts, and pinned to a core.

Only Redis of a fleet is no context: it is killed and started again, and has to keep what it acknowledged.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from framehold_loadtest.local.process import NotAvailable, Process, within

ROOT = Path(__file__).parents[3]
"""The checkout, if this package is in one."""
_START_SECONDS = 30.0
_STOP_SECONDS = 5.0
_NO_DISK = {"appendonly": "no"}
_DISK = {"appendonly": "yes", "auto-aof-rewrite-percentage": "0"}
_EACH_WRITE = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}
_HAPROXY = """
global
    maxconn 4000
defaults
    mode http
    timeout connect 2s
    timeout client 60s
    timeout server 60s
    option redispatch
    option http-no-delay
    retries 3
frontend mcp
    bind 127.0.0.1:{port}
    default_backend nodes
backend nodes
    balance roundrobin
{sticky}
    default-server check inter 500ms fall 2 rise 1
{servers}
"""
_BY_SESSION = """
    stick-table type string len 64 size 100k expire 30m
    stick store-response res.hdr(mcp-session-id)
    stick match req.hdr(mcp-session-id)
"""


@dataclass(frozen=True, slots=True)
class Cores:
    """The core of the measured server, and the core of the load generator."""

    server: int
    load: int


def pick_cores() -> Cores:
    """The first two cores that this process may use: the same one twice if there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    return Cores(server=usable[0], load=usable[min(1, len(usable) - 1)])


def framehold_port(line: str) -> int:
    """The port in the first line that a `framehold` process prints."""
    return int(line.partition("/mcp")[0].rpartition(":")[2])


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(probe.getsockname()[1]) for probe in probes]


@contextlib.contextmanager
def started(name: str, argv: Sequence[str], core: int, settings: Mapping[str, str]) -> Iterator[Process]:
    """A child on a core, stopped at the end of the context. Its log is gone with it."""
    with tempfile.TemporaryDirectory() as folder:
        child = Process(name, argv, Path(folder) / "log", settings, core=core)
        child.start()
        try:
            yield child
        finally:
            child.stop(_STOP_SECONDS)


@contextlib.contextmanager
def announced(
    argv: Sequence[str], core: int, settings: Mapping[str, str], port_of: Callable[[str], int] = int
) -> Iterator[Process]:
    """A program on a core, which prints one line when it listens; `port_of` reads its port.

    Raises:
        NotAvailable: it ended, or printed nothing in time.
    """
    with started("the server", argv, core, settings) as child:
        line = child.announced()
        child.port = port_of(line)
        yield child


@contextlib.contextmanager
def accepting(
    argv: Sequence[str], core: int, settings: Mapping[str, str], port: int, otherwise: str
) -> Iterator[Process]:
    """A program on a core that prints nothing when it listens, once its port accepts connections.

    Raises:
        NotAvailable: it ended before, or takes too long; `otherwise` is the reason.
    """
    with started("the program", argv, core, settings) as child:
        _await(lambda: _accepts(port), child, otherwise)
        child.port = port
        yield child


@contextlib.contextmanager
def haproxy_server(core: int, config: str, port: int, settings: Mapping[str, str]) -> Iterator[Process]:
    """HAProxy with this configuration on a core; the configuration makes it listen on `port`.

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
def haproxy(servers: Sequence[int], *, by_session: bool = False) -> Iterator[Process]:
    """HAProxy in front of servers on these ports, which takes them in turn, or by session for clients of 2025.

    It checks its servers, sends a connection that one server refuses to another, and passes each event of a stream on
    at once.

    Raises:
        NotAvailable: it is not installed, or does not start.
    """
    (port,) = free_ports(1)
    lines = "\n".join(f"    server node-{number} 127.0.0.1:{node}" for number, node in enumerate(servers, 1))
    config = _HAPROXY.format(port=port, servers=lines, sticky=_BY_SESSION if by_session else "")
    with haproxy_server(pick_cores().load, config, port, {}) as proxy:
        yield proxy


@contextlib.contextmanager
def redis_server(core: int, sync: str = "") -> Iterator[Process]:
    """A private Redis on a core: without persistence, or with a file of its writes and this `appendfsync`.

    Raises:
        NotAvailable: redis-server is not installed, or does not answer.
    """
    (port,) = free_ports(1)
    persistence = _DISK | {"appendfsync": sync} if sync else _NO_DISK
    with (
        tempfile.TemporaryDirectory() as folder,
        started("redis-server", _redis(Path(folder), port, persistence), core, {}) as child,
    ):
        await_redis(child, port)
        child.port = port
        yield child


def durable_redis(folder: Path) -> tuple[Process, int]:
    """A Redis that is not started yet, and its port, which it has again after a restart.

    It keeps what it acknowledged over its own death: each write is in its append-only file before the reply.

    Raises:
        NotAvailable: redis-server is not installed.
    """
    (port,) = free_ports(1)
    home = folder / "store"
    home.mkdir()
    return Process("store", _redis(home, port, _EACH_WRITE), folder / "store.log", {}, piped=False), port


def await_redis(child: Process, port: int) -> None:
    """Wait until a Redis answers.

    Raises:
        NotAvailable: it does not.
    """
    _await(lambda: _pongs(port), child, "the store does not answer")


def _redis(home: Path, port: int, persistence: Mapping[str, str]) -> list[str]:
    binary = shutil.which("redis-server")
    if binary is None:
        raise NotAvailable("redis-server is not installed; nothing was started; install it")
    options = {"port": str(port), "bind": "127.0.0.1", "dir": str(home), "save": "", "loglevel": "warning"}
    return [binary, *(word for name, value in (options | dict(persistence)).items() for word in (f"--{name}", value))]


def _await(holds: Callable[[], bool], child: Process, otherwise: str) -> None:
    deadline = within(_START_SECONDS)
    while not holds():
        if child.ended() is not None or time.monotonic() > deadline:
            raise NotAvailable(f"{otherwise}{child.last_words()}")
        time.sleep(0.02)


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _pongs(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as link:
        link.sendall(b"PING\r\n")
        return link.recv(64).startswith(b"+PONG")
    return False
