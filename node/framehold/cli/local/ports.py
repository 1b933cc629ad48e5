"""Finds free TCP ports of this machine.

The law: a chosen port stays free until its server listens, and while the server restarts. So ports that the system
gives to outgoing connections are not chosen: the next connection of any process could take them.
"""

from __future__ import annotations

import random
import socket

from framehold_core.errors import ConfigError

HOST = "127.0.0.1"
_LAST = 65_535
_CHOSEN_FROM = range(10_000, 32_768)
"""Above the well-known ports, and below those that Linux gives to connections (net.ipv4.ip_local_port_range)."""
_TRIES = 100


def take(port: int) -> int:
    """Return `port` if it is free, or any free port for 0.

    Raises:
        ConfigError: the port is not free.
    """
    try:
        return _bind(port) if port else free()
    except OSError as error:
        raise ConfigError(
            f"port {port} of {HOST} can't be had ({error.strerror or error}); nothing was started; choose another "
            "--port"
        ) from None


def free() -> int:
    """Return a free port, chosen at random."""
    tried = (_free_or_none(port) for port in random.sample(_CHOSEN_FROM, _TRIES))
    return next((port for port in tried if port is not None), None) or _bind(0)


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
        return _bind(port) if port <= _LAST else None
    except OSError:
        return None


def _bind(port: int) -> int:
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
