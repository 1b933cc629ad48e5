"""A plugin of pytest: FastMCP's own tests with Framehold in between. `placed` describes the modes."""

from __future__ import annotations

import inspect
from typing import Any

import placed
from fastmcp import FastMCP
from fastmcp.client.transports.memory import FastMCPTransport
from mcp.server import Server
from mcp.server.transport_security import TransportSecuritySettings

from framehold.hosts.sdk_app import local_only

_NOT_OURS = ("event_store", "retry_interval")
"""Options of FastMCP's app that neither `framehold.asgi` nor FastMCP's settings have."""
_HTTP = ("http", "streamable-http")


def attach_servers() -> None:
    """Attach each server when a test connects to it in memory, runs it, or serves it over HTTP."""
    placed.remember_authors()
    placed.before(FastMCPTransport, "connect_session", lambda transport, **options: placed.attach(transport.server))
    placed.before(Server, "run", lambda server, *args, **options: placed.attach(server))
    placed.before(FastMCP, "http_app", lambda server, *args, **options: placed.attach(server))


def front_apps() -> None:
    """Put Framehold's application in front of FastMCP's apps."""
    make = FastMCP.http_app
    signature = inspect.signature(make)

    def http_app(self: FastMCP[Any], *args: Any, **options: Any) -> Any:
        app = make(self, *args, **options)
        chosen = signature.bind(self, *args, **options).arguments
        is_other = any(chosen.get(name) is not None for name in _NOT_OURS)
        if is_other or chosen.get("path") not in (None, "/mcp") or chosen.get("transport", "http") not in _HTTP:
            placed.placed["app of FastMCP"] += 1
        else:
            placed.put_in_front(app, self, _unchecked(), lambda: False)
        return app

    FastMCP.http_app = http_app  # type: ignore[method-assign]  # Framehold in between


def _unchecked() -> TransportSecuritySettings:
    """FastMCP checks hosts and origins itself, in front of Framehold's entry."""
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=False, allowed_origins=local_only().allowed_origins
    )


if placed.IS_ATTACHED:
    attach_servers()
if placed.MODE == "app":
    front_apps()
