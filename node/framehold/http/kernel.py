"""One pass of a round through the SDK's kernel.

The order of the steps is the SDK's: middlewares with the outermost first, surface validation, look-up of the handler,
its parameters, the handler, the envelope. Two things differ:

- the answers of a retry are not validated here: each is parsed by the result type of its own question, whose error
  names the answer
- the gate of the handshake is left out, because a request of this revision has no handshake

Private methods of the SDK's runner are used here. The test that names the SDK's release checks them.
"""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.runner import ServerRunner
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import methods

from ..engine import token_claims
from ..sdk.middleware_chain import chained, dumped
from ..sdk.seam import Seam
from ..sdk.session import Ctx
from .client_identities import ClientIdentities
from .exchange import Exchange


class Kernel(ServerRunner[Any]):
    """The SDK's kernel for all requests of one revision. The connection and the lifespan come with each request."""

    def __init__(self, server: Server[Any], version: str, identities: ClientIdentities) -> None:
        super().__init__(server, Connection.from_envelope(version, None, None), None)
        self._version, self._identities = version, identities

    async def round(
        self, exchange: Exchange, connection: Connection, lifespan: Any, method: str, params: dict[str, Any]
    ) -> dict[str, Any]:
        """Run one request through the chain. Returns its result as it goes on the wire. Raises what the chain
        raises."""
        chain = chained(self.server.middleware, self._inner)
        return dumped(await chain(self.context(exchange, connection, lifespan, method, params)))

    def context(
        self, exchange: Exchange, connection: Connection, lifespan: Any, method: str, params: dict[str, Any]
    ) -> Ctx:
        """The context of one request, as its handler gets it."""
        meta = params["_meta"]
        if "progressToken" in meta:
            # The one key that the SDK's model of it names otherwise.
            meta = {name: value for name, value in meta.items() if name != "progressToken"}
            meta["progress_token"] = params["_meta"]["progressToken"]
        return ServerRequestContext(
            session=ServerSession(exchange, connection, request_meta=meta),
            lifespan_context=lifespan,
            protocol_version=self._version,
            method=method,
            params=params,
            request_id=exchange.request_id,
            meta=meta,
            request=exchange.request,
        )

    async def _inner(self, ctx: Ctx) -> Any:
        method, params = ctx.method, ctx.params
        entry = self.server.get_request_handler(method)
        is_seam = entry is not None and isinstance(entry.handler, Seam)
        checked = _without_answers(params) if is_seam else params
        try:
            methods.validate_client_request(method, self._version, checked)
        except KeyError:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", method) from None
        if entry is None:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", method)
        validated = entry.params_type.model_validate({} if checked is None else checked, by_name=False)
        self._identities.keep_valid((params or {}).get("_meta"))
        return self.shaped(method, await entry.handler(ctx, validated))

    def shaped(self, method: str, result: Any) -> dict[str, Any]:
        """What a handler has returned, as it goes on the wire. Raises MCPError if it is an error."""
        if isinstance(result, types.ErrorData):
            raise MCPError.from_error_data(result)
        return self._serialize(method, self._version, result)


def _without_answers(params: Any) -> Any:
    """The parameters of a request but for the answers that come with a token of Framehold's."""
    state = params.get("requestState") if isinstance(params, dict) else None
    if not token_claims.is_of_a_call(state) or not isinstance(params.get("inputResponses"), dict):
        return params
    return {name: value for name, value in params.items() if name != "inputResponses"}
