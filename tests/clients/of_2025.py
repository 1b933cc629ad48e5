"""The booking example on a server that knows no revision later than 2025-11-25, and nothing of Framehold.

It is the SDK's own app, without the one branch by which it serves 2026-07-28: that branch goes by the version header,
so a header that a server of that time did not know is not there. What is left is what such a server does: without a
session nothing but `initialize` is served.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import Receive, Scope, Send

from framehold.examples import booking


async def _directly(_: str, effect: Callable[..., Awaitable[None]], *arguments: str) -> None:
    """Run an effect as a server does that knows nothing of Framehold, and so never enters a tool again."""
    await effect(*arguments)


vars(booking)["framehold"] = SimpleNamespace(once=_directly)
_inner = booking.mcp.streamable_http_app()
_KNOWN = {version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS}


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve as if 2026-07-28 had never been."""
    if scope["type"] == "http":
        known = [
            (name, value) for name, value in scope["headers"] if name != b"mcp-protocol-version" or value in _KNOWN
        ]
        scope = {**scope, "headers": known}
    await _inner(scope, receive, send)
