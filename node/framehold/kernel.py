"""One pass of the SDK's kernel for a round, without what a round needn't pay for.

The order of things is the SDK's: middleware outermost first, surface validation, look-up, parameters, handler,
envelope. Left out is what is known already:

- the `_meta` model: the surface checks its shape with the rest of the parameters
- the handshake's gate: a request of this revision is born past it
- a retry's parameters, once the boundary has opened its state: name and arguments are sealed in it as round 1
  validated them, its answers are parsed by their own asks; so only a `_meta` that was never seen is validated
- what the surface would see of a first request that holds a name, arguments and a known `_meta`: they are mappings
- a reply that asks: its questions were shaped for the wire when they were asked
- validation of a result of plain texts, which comes out as it went in
- a copy of the server's identity for each reply, where no middleware of others could edit it

Private methods of the SDK's runner are used here; the test that names the SDK's release checks them.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary
from mcp.server.runner import ServerRunner
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import methods
from pydantic_core import to_json

from . import texts, tokens
from .exchange import Exchange
from .replies import Asking
from .seam import Seam
from .session import Ctx

Call = Callable[[Ctx], Awaitable[Any]]

_KEPT, _LONG = 1024, 4096
"""How many client identities are remembered, and up to how many bytes each."""
_FIRST = {"name", "arguments", "_meta"}
_RETRY = {"name", "uri", "arguments", "_meta", "inputResponses", "requestState"}
_PLAIN = {"progressToken", "traceparent", "tracestate", "baggage"}
IDENTITY = (types.PROTOCOL_VERSION_META_KEY, types.CLIENT_INFO_META_KEY, types.CLIENT_CAPABILITIES_META_KEY)
"""What a `_meta` says of its client."""


class Kernel(ServerRunner[Any]):
    """The SDK's kernel for all requests of one revision: whose each is, and under which lifespan, comes with it."""

    def __init__(self, server: Server[Any], version: str) -> None:
        super().__init__(server, Connection.from_envelope(version, None, None), None)
        self._version, self._stamp = version, server.server_info_stamp
        self._middlewares: Sequence[Any] = ()
        self._chain: Call = self._inner
        self._alone = True
        """Whether nobody but us and the SDK sees a result on its way out."""

    async def round(
        self, exchange: Exchange, connection: Connection, lifespan: Any, method: str, params: dict[str, Any]
    ) -> dict[str, Any]:
        """Run one request through the chain; its result as it goes on the wire. Raises what the chain raises."""
        meta = params["_meta"]
        if "progressToken" in meta:
            # The one key that the SDK's model of it names otherwise.
            meta = {name: value for name, value in meta.items() if name != "progressToken"}
            meta["progress_token"] = params["_meta"]["progressToken"]
        ctx: Ctx = ServerRequestContext(
            session=ServerSession(exchange, connection, request_meta=meta),
            lifespan_context=lifespan,
            protocol_version=self._version,
            method=method,
            params=params,
            request_id=exchange.request_id,
            meta=meta,
            request=exchange.request,
        )
        self._compose()
        return dumped(await self._chain(ctx))

    def _compose(self) -> None:
        """Have the chain of the middlewares as they stand: an author may add one, or take one away, at any time."""
        now, seen = self.server.middleware, self._middlewares
        if len(now) != len(seen) or not all(map(operator.is_, now, seen)):
            self._middlewares = tuple(now)
            self._chain = chained(now, self._inner)
            self._alone = all(map(is_ours, now))

    async def _inner(self, ctx: Ctx) -> Any:
        method, params, version = ctx.method, ctx.params, self._version
        entry = self.server.get_request_handler(method)
        if entry is None:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", method)
        handler, typed = entry.handler, None
        if not isinstance(handler, Seam) or not _sealed(params):
            plain = _plain(method, params)
            if not plain:
                try:
                    methods.validate_client_request(method, version, params)
                except KeyError:
                    raise MCPError(types.METHOD_NOT_FOUND, "Method not found", method) from None
            typed = entry.params_type.model_validate({} if params is None else params, by_name=False)
            if not plain:
                _remember(params)
        result = await handler(ctx, typed)
        if isinstance(result, Asking):
            told = {**result, "_meta": {types.SERVER_INFO_META_KEY: self._stamp}}
            # Questions and identity are shared by all who are told them: middleware of others may edit its own copy.
            return told if self._alone else copy.deepcopy(told)
        if isinstance(result, types.ErrorData):
            raise MCPError.from_error_data(result)
        return self._serialize(method, version, result)

    def _serialize(self, method: str, version: str, result: Any) -> dict[str, Any]:
        plain = texts.dumped(result) if method == "tools/call" else None
        return super()._serialize(method, version, result) if plain is None else self._stamp_server_info(version, plain)

    def _stamp_server_info(self, version: str, result: dict[str, Any]) -> dict[str, Any]:
        if result.get("_meta") is not None or not self._alone:
            return super()._stamp_server_info(version, result)
        result["_meta"] = {types.SERVER_INFO_META_KEY: self._stamp}
        return result


def is_ours(middleware: Any) -> bool:
    """Whether a middleware is one that never edits a result in place: the boundary, or what `attach` put there."""
    return isinstance(middleware, RequestStateBoundary) or getattr(middleware, "framehold", False)


def chained(middlewares: Sequence[Any], call: Call) -> Call:
    """`call` behind middlewares, the first of them outermost."""
    for middleware in reversed(middlewares):
        call = partial(_through, middleware, call)
    return call


def _through(middleware: Any, call: Call, ctx: Ctx) -> Any:
    return middleware(ctx, call)


def dumped(result: Any) -> dict[str, Any]:
    """A result as a mapping: what is none was answered by a middleware itself, without the chain. Raises MCPError where
    it is an error."""
    if isinstance(result, dict):
        return result
    if isinstance(result, types.ErrorData):
        raise MCPError.from_error_data(result)
    return dict(result.model_dump(by_alias=True, mode="json", exclude_none=True)) if result is not None else {}


_identities: set[bytes] = set()
"""The client identities that passed the surface's validation, as JSON."""


def _remember(params: Any) -> None:
    meta = (params or {}).get("_meta")
    if isinstance(meta, dict):
        identity = to_json(list(map(meta.get, IDENTITY)))
        if len(_identities) >= _KEPT:
            # Clients choose them: junk may cost others a validation, not their place for good.
            _identities.clear()
        if len(identity) <= _LONG:
            _identities.add(identity)


def _known(meta: Any) -> bool:
    """Whether a `_meta` holds an identity that was validated before, and beside it nothing but plain texts."""
    if not isinstance(meta, dict):
        # A middleware left none.
        return False
    for name, value in meta.items():
        if name == "progressToken" and type(value) is int:
            continue
        if name not in IDENTITY and (name not in _PLAIN or not isinstance(value, str)):
            return False
    return to_json(list(map(meta.get, IDENTITY))) in _identities


def _plain(method: str, params: Any) -> bool:
    """Whether these are the parameters of a first request in which the surface has nothing left to find."""
    if method != "tools/call" or not isinstance(params, dict) or not params.keys() <= _FIRST:
        return False
    arguments = params.get("arguments")
    named = isinstance(params.get("name"), str) and (arguments is None or isinstance(arguments, dict))
    return named and _known(params.get("_meta"))


def _sealed(params: Any) -> bool:
    """Whether these are the parameters of a retry that needs no validation beyond its seal and its asks."""
    if not isinstance(params, dict) or not params.keys() <= _RETRY:
        return False
    state, answers, arguments = params.get("requestState"), params.get("inputResponses"), params.get("arguments")
    if not isinstance(state, str) or not state.startswith((tokens.OURS, tokens.REPLAY)):
        return False
    # The digest of the arguments takes an empty list or text for none.
    if arguments is not None and not isinstance(arguments, dict):
        return False
    return isinstance(answers, dict) and _known(params.get("_meta"))
