"""A private Redis that keeps what it acknowledged over its own death: its append-only file is written through."""

from __future__ import annotations

import shutil
import socket
import time
from pathlib import Path

from framehold_loadtest.bench.children import NotAvailable, free_ports
from framehold_loadtest.local.process import Process, within

_START_SECONDS = 20.0


def redis(folder: Path) -> tuple[Process, int]:
    """A Redis that is not started yet, and its port, which it has again after a restart.

    Raises:
        NotAvailable: redis-server is not installed.
    """
    binary = shutil.which("redis-server")
    if binary is None:
        raise NotAvailable("redis-server is not installed; nothing was started; install it")
    (port,) = free_ports(1)
    home = folder / "store"
    home.mkdir()
    options = {"port": str(port), "bind": "127.0.0.1", "dir": str(home), "save": "", "loglevel": "warning"}
    options |= {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return Process("store", [binary, *words], folder / "store.log", {}, announces=False), port


def await_pong(store: Process, port: int) -> None:
    """Wait until it answers.

    Raises:
        NotAvailable: it does not.
    """
    deadline = within(_START_SECONDS)
    while not _pongs(port):
        if store.ended() is not None or time.monotonic() > deadline:
            raise NotAvailable(f"the store does not answer{store.last_words()}")
        time.sleep(0.02)


def _pongs(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as link:
            link.sendall(b"PING\r\n")
            return link.recv(64).startswith(b"+PONG")
    except OSError:
        return False
