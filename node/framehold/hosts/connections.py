"""The connection behind a request, and the session of a saga's request.

Private parts of the SDK that are touched here; a test names the release:

- `ServerSession._connection`: a frame needs a connection of its own, with the same outbound channel
- `ServerSession._request_outbound`: the session of a saga's request, with the capabilities that sagas have steps for
"""

from __future__ import annotations

import copy

from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ClientCapabilities

from ..sdk.session import Ctx


def connection_of(ctx: Ctx) -> Connection:
    """The connection that a frame begins with. It has an identity and a protocol version, and no part that ends with
    the request.

    Raises:
        TypeError: a middleware has put another object in the place of the SDK's session.
    """
    connection = getattr(ctx.session, "_connection", None)
    if not isinstance(connection, Connection):
        kind = type(ctx.session).__name__
        raise TypeError(
            f"the session of this request is a {kind}, and not the SDK's ServerSession; the handler was not entered; a "
            "middleware that replaces the session must hand on the one that it got"
        )
    return connection


def session_of(ctx: Ctx, has: ClientCapabilities) -> ServerSession:
    """A session for a request whose wire declares no capabilities, as if its client had declared `has`.

    Raises:
        MCPError: the client made no handshake, on a revision that has one.
    """
    own = connection_of(ctx)
    if not own.initialize_accepted:
        # The SDK's own words.
        raise MCPError(INVALID_PARAMS, "Invalid request parameters", "")
    connection = copy.copy(own)
    connection.client_capabilities = has
    return ServerSession(ctx.session._request_outbound, connection, request_meta=ctx.meta)
