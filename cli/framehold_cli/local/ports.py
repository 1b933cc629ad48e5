"""Finds free TCP ports of this machine.

The law: a chosen port stays free until its server listens, and while the server restarts. Two things hold it:

1. Ports that the system gives to outgoing connections are not chosen: the next connection of any process could take
   them.
2. A chosen port is bound, and not listened on, as long as this process lives. A server can listen there all the same,
   because it binds with SO_REUSEADDR. Another process that looks for a free port binds without it, and finds this one
   in use.
"""

from __future__ import annotations

import atexit
import collections
import random
import socket

from framehold_core.errors import ConfigError

HOST = "127.0.0.1"
_LAST = 65_535
_CHOSEN_FROM = range(10_000, 32_768)
"""Above the well-known ports, and below those that Linux gives to connections (net.ipv4.ip_local_port_range)."""
_TRIES = 100
_HELD: collections.deque[socket.socket] = collections.deque()
_MOST_HELD = 100
"""Ports that one process holds; behind that the oldest is given up, so that its open files stay few."""


def take(port: int) -> int:
    """Return `port` if it is free, or any free port for 0.

    Raises:
        ConfigError: the port is not free.
    """
    try:
        return _listenable(port) if port else free()
    except OSError as error:
        raise ConfigError(
            f"port {port} of {HOST} can't be had ({error.strerror or error}); nothing was started; choose another "
            "--port"
        ) from None


def free() -> int:
    """Return a free port, chosen at random. No other process that calls this gets it while this one lives."""
    for port in random.sample(_CHOSEN_FROM, _TRIES):
        if _hold(port):
            return port
    return _listenable(0)


def beside(port: int, count: int) -> list[int]:
    """Return `count` free ports: those after `port` that are free, and other free ports instead of the rest."""
    found: list[int] = []
    for wanted in range(port + 1, port + 1 + count):
        chosen = _free_or_none(wanted)
        while chosen is None or chosen in found or chosen == port:
            chosen = free()
        found.append(chosen)
    return found


def _free_or_none(port: int) -> int | None:
    try:
        return _listenable(port) if port <= _LAST else None
    except OSError:
        return None


def _hold(port: int) -> bool:
    """Bind `port` until this process ends; False where any socket is bound to it."""
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        holder.bind((HOST, port))
    except OSError:
        holder.close()
        return False
    # Only now: the bind above had to fail where somebody else is bound, and the server's has to succeed.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _HELD.append(holder)
    if len(_HELD) > _MOST_HELD:
        _HELD.popleft().close()
    return True


@atexit.register
def _give_up() -> None:
    """Close what is held. A socket that is still open when its module goes is a ResourceWarning, which is printed where
    warnings are errors."""
    while _HELD:
        _HELD.popleft().close()


def _listenable(port: int) -> int:
    """Bind and listen on `port` for a moment, and return its number; 0 binds any port.

    Binding alone is not enough: with SO_REUSEADDR two sockets may bind one port.

    Raises:
        OSError: a server can't listen there."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))
        probe.listen(1)
        chosen: int = probe.getsockname()[1]
        return chosen
