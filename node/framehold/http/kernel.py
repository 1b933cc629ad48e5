"""One pass of a round through the SDK's kernel, without the work whose result is known already.

The order of the steps is the SDK's: middlewares with the outermost first, surface validation, look-up of the handler,
its parameters, the handler, the envelope. A pass skips a step only where a predicate below says so. The docstring of
the predicate names the promise that the shortcut rests on:

- `_needs_no_surface`: surface validation of a first request
- `_is_sealed_retry`: surface validation and the parameter model of a retry
- `isinstance(result, Asking)`: validation of a reply that asks. Its questions were shaped for the wire when they were
  asked
- `text_result.dumped`: validation of a result of plain texts, which comes out as it went in
- `Kernel._results_unedited`: a copy of the server's identity for each reply

Two steps are left out for every request: the `_meta` model, because surface validation checks its shape together with
the other parameters; and the gate of the handshake, because a request of this revision has no handshake.

Private methods of the SDK's runner are used here. The test that names the SDK's release checks them.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Sequence
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
from ..sdk.middleware_chain import Call, chained, dumped, is_ours
from ..sdk.replies import Asking
from ..sdk.seam import Seam
from ..sdk.session import Ctx
from . import text_result
from .client_identities import ClientIdentities
from .exchange import Exchange

_FIRST_REQUEST = {"name", "arguments", "_meta"}
"""The parameters that a first request of a tool may have."""
_RETRY = {"name", "uri", "arguments", "_meta", "inputResponses", "requestState"}
"""The parameters that a retry may have."""


class Kernel(ServerRunner[Any]):
    """The SDK's kernel for all requests of one revision. The connection and the lifespan come with each request."""

    def __init__(self, server: Server[Any], version: str, identities: ClientIdentities) -> None:
        super().__init__(server, Connection.from_envelope(version, None, None), None)
        self._version, self._identities = version, identities
        self._server_identity = server.server_info_stamp
        self._middlewares: Sequence[Any] = ()
        self._chain: Call = self._inner
        self._results_unedited = True
        """Whether all middlewares are Framehold's or the SDK's boundary. The promise: none of these edits a result in
        place, so replies may share the server's identity and their questions."""

    async def round(
        self, exchange: Exchange, connection: Connection, lifespan: Any, method: str, params: dict[str, Any]
    ) -> dict[str, Any]:
        """Run one request through the chain. Returns its result as it goes on the wire. Raises what the chain
        raises."""
        result = await self._chain(self.context(exchange, connection, lifespan, method, params))
        return result if type(result) is dict else dumped(result)

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

    def has_middlewares_of_others(self) -> bool:
        """Whether a middleware of the server is the author's or a library's. Builds the chain anew if the middlewares
        changed, since an author may add or remove one at any time: to be called before each `round`."""
        now, seen = self.server.middleware, self._middlewares
        if len(now) != len(seen) or not all(map(operator.is_, now, seen)):
            self._middlewares = tuple(now)
            self._chain = chained(now, self._inner)
            self._results_unedited = all(map(is_ours, now))
        return not self._results_unedited

    async def _inner(self, ctx: Ctx) -> Any:
        method, params, version = ctx.method, ctx.params, self._version
        entry = self.server.get_request_handler(method)
        if entry is None:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", method)
        handler, validated = entry.handler, None
        if not isinstance(handler, Seam) or not self._is_sealed_retry(params):
            surface_checked = self._needs_no_surface(method, params)
            if not surface_checked:
                try:
                    methods.validate_client_request(method, version, params)
                except KeyError:
                    raise MCPError(types.METHOD_NOT_FOUND, "Method not found", method) from None
            validated = entry.params_type.model_validate({} if params is None else params, by_name=False)
            if not surface_checked:
                self._identities.keep_valid((params or {}).get("_meta"))
        return self.shaped(method, await handler(ctx, validated))

    def shaped(self, method: str, result: Any) -> dict[str, Any]:
        """What a handler has returned, as it goes on the wire. Raises MCPError if it is an error."""
        if isinstance(result, Asking):
            reply = {**result, "_meta": {types.SERVER_INFO_META_KEY: self._server_identity}}
            # Replies share questions and identity: a middleware of others may edit its own copy.
            return reply if self._results_unedited else copy.deepcopy(reply)
        if isinstance(result, types.ErrorData):
            raise MCPError.from_error_data(result)
        return self._serialize(method, self._version, result)

    def _serialize(self, method: str, version: str, result: Any) -> dict[str, Any]:
        plain = text_result.dumped(result) if method == "tools/call" else None
        return super()._serialize(method, version, result) if plain is None else self._stamp_server_info(version, plain)

    def _stamp_server_info(self, version: str, result: dict[str, Any]) -> dict[str, Any]:
        if result.get("_meta") is not None or not self._results_unedited:
            return super()._stamp_server_info(version, result)
        result["_meta"] = {types.SERVER_INFO_META_KEY: self._server_identity}
        return result

    def _needs_no_surface(self, method: str, params: Any) -> bool:
        """Whether these are the parameters of a first request in which surface validation can find nothing wrong.

        The promise: for `tools/call`, the surface checks that `name` is a text, that `arguments` is an object or
        absent, and that `_meta` is valid. All three are checked here, and no other parameter is there."""
        if method != "tools/call" or not isinstance(params, dict) or not params.keys() <= _FIRST_REQUEST:
            return False
        arguments = params.get("arguments")
        named = isinstance(params.get("name"), str) and (arguments is None or isinstance(arguments, dict))
        return named and self._identities.is_valid(params.get("_meta"))

    def _is_sealed_retry(self, params: Any) -> bool:
        """Whether these are the parameters of a retry that needs no validation beyond its seal and its questions.

        The promise: the boundary has opened the request state. Name and arguments are sealed in it as round 1
        validated them, and each answer is parsed by the result type of its own question. Only `_meta` is new."""
        if not isinstance(params, dict) or not params.keys() <= _RETRY:
            return False
        state, answers, arguments = params.get("requestState"), params.get("inputResponses"), params.get("arguments")
        if not isinstance(state, str) or not state.startswith((token_claims.OURS, token_claims.REPLAY)):
            return False
        # The digest of the arguments takes an empty list or text for none.
        if arguments is not None and not isinstance(arguments, dict):
            return False
        return isinstance(answers, dict) and self._identities.is_valid(params.get("_meta"))
