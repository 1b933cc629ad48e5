"""The SDK's checks of a `tools/call` in front of all middlewares: its headers against its body. A gateway may rule by
these headers, so a request that becomes a `tools/call` further behind needs them too.

A private part of the SDK is used here; a test names the release: `_streamable_http_modern._mcp_param_rejection`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import mcp.server._streamable_http_modern as modern
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    InboundLadderRejection,
    classify_inbound_request,
    find_invalid_x_mcp_header,
    x_mcp_header_map,
)
from mcp_types import JSONRPCRequest, methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

from .session import Ctx

ParamRejection = Callable[..., Awaitable[InboundLadderRejection | None]]
param_rejection: ParamRejection = modern._mcp_param_rejection


def mirrors_nothing(schema: Any) -> bool:
    """Whether no header has to repeat an argument of a tool with this input schema."""
    return find_invalid_x_mcp_header(schema) is None and not x_mcp_header_map(schema)


async def check_translated(server: Server[Any], came: Ctx, call: Ctx) -> None:
    """Check the `tools/call` into which a request was translated, as the SDK checks one that is none: the headers of
    the request against the call, if it `came` on a revision that has them, then the call's parameters.

    `Mcp-Method` is that of the request itself, and was checked with it.

    Raises:
        MCPError, ValidationError: the SDK refuses such a `tools/call`.
    """
    params = dict(call.params or {})
    if isinstance(came.request, Request) and came.protocol_version in MODERN_PROTOCOL_VERSIONS:
        headers = {**came.request.headers, MCP_METHOD_HEADER: call.method}
        found = classify_inbound_request({"method": call.method, "params": params}, headers=headers)
        if not isinstance(found, InboundLadderRejection):
            message = JSONRPCRequest(jsonrpc="2.0", id=came.request_id, method=call.method, params=params)
            rejected = await param_rejection(server, came.request, message, found, came.lifespan_context)
        else:
            rejected = found
        if rejected is not None:
            raise MCPError(rejected.code, rejected.message, rejected.data)
    # The answers are checked further behind, each by its question.
    params.pop("inputResponses", None)
    methods.validate_client_request(call.method, came.protocol_version, params)
