"""The ASGI app that the SDK makes for a server, and the hosts and origins that the app accepts."""

from __future__ import annotations

from typing import Any

from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http_manager import DEFAULT_MAX_SESSIONS
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from ..config import Settings
from ..engine import memory

FEWEST_SESSIONS = 100
"""Sessions that may be open however little memory there is: 4 MB."""


def sdk_app(
    server: MCPServer[Any] | Server[Any], settings: Settings, path: str
) -> tuple[Starlette, TransportSecuritySettings]:
    """The SDK's app of `server`, with its endpoint at `path`, and the hosts and origins that it accepts."""
    security = accepted(settings)
    app = server.streamable_http_app(
        streamable_http_path=path,
        max_request_body_size=settings.max_body,
        max_sessions=settings.max_sessions or _max_sessions(settings),
        transport_security=security,
    )
    return app, security


def accepted(settings: Settings) -> TransportSecuritySettings:
    """The hosts and origins that the settings allow; if they name neither, local ones."""
    if not (settings.allowed_hosts or settings.allowed_origins):
        return local_only()
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=list(settings.allowed_hosts) or local_only().allowed_hosts,
        allowed_origins=list(settings.allowed_origins),
    )


def _max_sessions(settings: Settings) -> int:
    """How many sessions there may be if no setting says so."""
    limit = memory.allowed(settings.memory_limit)
    return memory.sessions(DEFAULT_MAX_SESSIONS, FEWEST_SESSIONS, limit, memory.resident())


def local_only() -> TransportSecuritySettings:
    """The SDK's default if no host and no origin is set: only local names are accepted, against DNS rebinding."""
    hosts = ["127.0.0.1:*", "localhost:*", "[::1]:*"]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True, allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
    )
