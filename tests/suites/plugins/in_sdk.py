"""A plugin of pytest: mcp's own tests with Framehold in between. `placed` describes the modes."""

from __future__ import annotations

import inspect
from typing import Any

import placed
from blockbuster import BlockBuster
from mcp.client._memory import InMemoryTransport
from mcp.client.client import Client
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http_manager import DEFAULT_MAX_REQUEST_BODY_SIZE, StreamableHTTPSessionManager
from starlette.applications import Starlette

from framehold.hosts.sdk_app import local_only

_NOT_OURS = ("json_response", "stateless_http", "event_store", "retry_interval")
"""Options of the SDK's app that `framehold.asgi` doesn't have."""
_LOCAL = ("127.0.0.1", "localhost", "::1")


def attach_servers() -> None:
    """Attach each server when a test connects to it, runs it, or serves it over HTTP."""

    def met(server: Any) -> None:
        if isinstance(server, MCPServer | Server):
            placed.attach(server)

    placed.remember_authors()
    placed.before(Client, "__post_init__", lambda client: met(client.server))
    placed.before(InMemoryTransport, "__init__", lambda _, server, **options: met(server))
    placed.before(Server, "run", lambda server, *args, **options: met(server))
    placed.before(StreamableHTTPSessionManager, "__init__", _attach_managed)


def _attach_managed(_: object, app: Any, *args: Any, **options: Any) -> None:
    if isinstance(app, Server):
        placed.attach(app)


def front_apps() -> None:
    """Put Framehold's application in front of the SDK's apps."""
    make = Server.streamable_http_app
    signature = inspect.signature(make)

    def streamable_http_app(self: Server[Any], **options: Any) -> Starlette:
        app = make(self, **options)
        chosen = signature.bind(self, **options)
        chosen.apply_defaults()
        _front(self, app, chosen.arguments)
        return app

    Server.streamable_http_app = streamable_http_app  # type: ignore[method-assign]  # Framehold in between


def _front(server: Server[Any], app: Starlette, options: dict[str, Any]) -> None:
    security = options["transport_security"] or (local_only() if options["host"] in _LOCAL else None)
    is_other = options["streamable_http_path"] != "/mcp" or any(options[name] for name in _NOT_OURS)
    if is_other or security is None:
        placed.placed["app of the SDK"] += 1
        return
    manager = server.session_manager
    if options["max_request_body_size"] != DEFAULT_MAX_REQUEST_BODY_SIZE:
        attached = placed.attach(server)
        limit = options["max_request_body_size"]
        attached.settings = attached.settings.model_copy(update={"max_body": limit})
    placed.put_in_front(app, server, security, lambda: manager._task_group is not None)


def let_memory_be_read() -> None:
    """Let a node read its memory and its limits from /proc and /sys when it starts. The SDK's tests refuse each
    blocking call on the event loop; these files are in memory, and no disk is waited for."""

    def allow(guard: BlockBuster) -> None:
        for function in guard.functions.values():
            function.can_block_in("framehold/engine/memory.py", {"_lines", "_read", "resident"})

    placed.before(BlockBuster, "activate", allow)


if placed.IS_ATTACHED:
    let_memory_be_read()
    attach_servers()
if placed.MODE == "app":
    front_apps()
