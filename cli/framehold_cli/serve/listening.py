"""The sockets on which `framehold node` and `framehold router` listen: that of clients, and the admin port; and their
event loop. A router imports this, so it imports no MCP SDK."""

from __future__ import annotations

import socket
from typing import Any, NamedTuple

from framehold_core.errors import ConfigError
from framehold_fleet.config import FleetSettings

_ADMIN = "FRAMEHOLD_ADMIN_PORT"
BACKLOG = 65_535
"""Connections that may wait to be accepted, up to the kernel's net.core.somaxconn. All calls of a dead node may come at
once, and a router gives up a connection that is not accepted within a second."""


class Sockets(NamedTuple):
    """The listening sockets of one process; `admin` is None if FRAMEHOLD_ADMIN_PORT is 0."""

    clients: socket.socket
    admin: socket.socket | None

    def close(self) -> None:
        """Close both."""
        self.clients.close()
        if self.admin is not None:
            self.admin.close()

    def served(self, host: str) -> str:
        """Where the process serves, for the line that it writes when it starts."""
        admin = "" if self.admin is None else f", admin port {url_of(host, self.admin)}"
        return f"{url_of(host, self.clients)}/mcp{admin}"


def listen_on(host: str, port: int, settings: FleetSettings) -> Sockets:
    """Open the socket of clients, and that of the admin port if there is one.

    Raises:
        ConfigError: a port can't be used."""
    clients = listen(host, port)
    try:
        return Sockets(clients, listen(host, settings.admin_port, _ADMIN) if settings.admin_port else None)
    except ConfigError:
        clients.close()
        raise


def listen(host: str, port: int, named: str = "--port") -> socket.socket:
    """Open a listening socket; port 0 takes a free one. `named` is the option or the setting that chooses the port.

    Raises:
        ConfigError: the address or the port can't be used."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # The protocol is explicit, because asyncio sets TCP_NODELAY only then. Without it a request takes 40 ms longer.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise _listen_error(host, port, named, error) from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise _listen_error(host, port, named, error) from None
    listening.setblocking(False)
    return listening


def url_of(host: str, listening: socket.socket) -> str:
    """The URL by which other processes reach a listening socket. For a wildcard `host` it has this machine's name."""
    if host in ("0.0.0.0", "::", ""):  # noqa: S104  # compared with, not bound
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"


def _listen_error(host: str, port: int, named: str, error: OSError) -> ConfigError:
    return ConfigError(
        f"can't listen on {host}:{port}: {error.strerror or error}; nothing was started; choose another {named}"
    )


def event_loop() -> Any:
    """The factory of uvloop's event loops; None, for asyncio's own, if uvloop is not installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
