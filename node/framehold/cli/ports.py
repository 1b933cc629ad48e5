"""Ports of this machine: which are free.

The law: a port that is chosen stays free until its server listens, and while it starts anew. So none is chosen of those
that the system gives to connections: any process's next one may take it.
"""

from __future__ import annotations

import random
import socket

from framehold_core.errors import ConfigError

HOST = "127.0.0.1"
_LAST = 65_535
_OURS = range(10_000, 32_768)
"""Beyond what services are known by, and below what Linux gives to connections (net.ipv4.ip_local_port_range)."""
_TRIES = 100


def take(port: int) -> int:
    """The port itself where it is free, any free one for 0.

    Raises:
        ConfigError: it can't be had.
    """
    try:
        return _bind(port) if port else free()
    except OSError as error:
        raise ConfigError(
            f"port {port} of {HOST} can't be had ({error.strerror or error}); nothing was started; choose another "
            "--port"
        ) from None


def free() -> int:
    """Any free port."""
    tried = (_free_or_none(port) for port in random.sample(_OURS, _TRIES))
    return next((port for port in tried if port is not None), None) or _bind(0)


def beside(port: int, count: int) -> list[int]:
    """`count` ports for neighbours of `port`: the next ones where they are free, else any."""
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
    """Whether a server could listen there is what binding tells. Listening too, because two may bind with
    SO_REUSEADDR."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))
        probe.listen(1)
        chosen: int = probe.getsockname()[1]
        return chosen
