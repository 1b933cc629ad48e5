"""The HTTP entry for what may ask on 2026-07-28, three methods and the two of sagas, past Starlette and the SDK's task
group per request.

Only the ordinary is taken here. Whatever is not - another method or era, a header that is missing, twice there or at
odds with the body, malformed JSON - goes to the SDK's own app with its body replayed, so that every rejection is the
SDK's own. What this entry checks itself is what must be known before a request may be called ordinary."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

from mcp.server.connection import Connection
from mcp.server.runner import aclose_shielded, modern_error_data
from mcp.server.streamable_http import check_accept_headers
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import JSONRPCRequest
from mcp_types.methods import INPUT_REQUIRED_METHODS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic_core import to_json
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from framehold_core import token

from . import saga
from .attach import param_rejection
from .attached import Attached
from .body import Body, TooLarge, left
from .connections import Identity
from .exchange import WATCH_AFTER, Exchange
from .forward import Passed
from .hop import Hop
from .kernel import IDENTITY, Kernel
from .ordinary import Ordinary, ordinary
from .outages import Search, Waited
from .replies import Misdirected, Unavailable, broke_off, not_held, out_of_reach, too_large
from .turns import Turns

_METHODS = {method.encode() for method in INPUT_REQUIRED_METHODS | saga.METHODS}
_VERSIONS = {version.encode() for version in MODERN_PROTOCOL_VERSIONS}
_CHECKED = {b"host", b"origin", b"content-type", b"accept"}
_KEPT = 1024
"""Client identities, header sets and tool schemas of which what was found out is kept."""
_LONG = 4096
"""Bytes beyond which an identity or a header set is looked at each time: clients choose them, and they stay."""


_BEGINS = b"start"
"""The route of a request that begins a call."""
_DIGITS = 20
"""Digits of a length beyond which it is too large without being counted: Python counts no more than some thousands."""


class Entry:
    """Serves ordinary rounds itself and gives everything else to `rest`, the SDK's endpoint."""

    def __init__(self, attached: Attached, rest: ASGIApp, security: TransportSecuritySettings | None) -> None:
        self._attached, self._rest = attached, rest
        self._security = TransportSecurityMiddleware(security)
        self._limit = attached.settings.max_body
        self._identities: OrderedDict[bytes, Connection] = OrderedDict()
        self._accepted: set[tuple[tuple[bytes, bytes], ...]] = set()
        self._plain: dict[str, Any] = {}
        self._turns = Turns()
        self._kernels = {version: Kernel(attached.server, version) for version in MODERN_PROTOCOL_VERSIONS}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and (len(declared) > _DIGITS or int(declared) > self._limit):
            await too_large(self._limit, receive, send)
            return
        if (
            scope["method"] != "POST"
            or headers.get(b"mcp-protocol-version") not in _VERSIONS
            or headers.get(b"mcp-method") not in _METHODS
        ):
            await self._rest(scope, receive, send)
            return
        body = Body(receive, self._limit)
        request = Request(scope, body.replay)
        try:
            plain = await self._acceptable(request)
            data = await body.whole()
        except TooLarge:
            await too_large(self._limit, receive, send)
            return
        if data is None:
            return
        found = ordinary(scope["headers"], data) if plain else None
        if found is None or not (self._headerless(found) or await self._mirrored(request, found)):
            await self._rest(scope, body.replay, send)
        else:
            await self._serve(request, found, data, receive, send)

    async def _acceptable(self, request: Request) -> bool:
        """Whether host, origin, content type and accept are as the SDK wants them; it is asked once for each set of
        them. Of a header that is there twice the SDK reads the first: the set holds every copy, in order."""
        said = tuple([item for item in request.scope["headers"] if item[0] in _CHECKED])
        if said in self._accepted:
            return True
        refused = await self._security.validate_request(request, is_post=True) is not None
        if refused or not all(check_accept_headers(request)):
            return False
        if len(self._accepted) >= _KEPT:
            self._accepted.clear()
        if sum(len(value) for _, value in said) <= _LONG:
            self._accepted.add(said)
        return True

    def _headerless(self, found: Ordinary) -> bool:
        """Whether this tool's schema mirrors no parameter in a header, as it was last seen: then there is none to
        check."""
        server = self._attached.server
        if found.method != "tools/call" or server.get_tool_input_schema is None:
            return found.method != "tools/call"
        name = str(found.params.get("name"))
        schema = server.get_tool_input_schema(name)
        if schema is None or self._plain.get(name) is schema:
            return schema is not None
        if find_invalid_x_mcp_header(schema) is None and not x_mcp_header_map(schema) and len(self._plain) < _KEPT:
            self._plain[name] = schema
        return False

    async def _mirrored(self, request: Request, found: Ordinary) -> bool:
        """Whether the SDK finds no header at odds with the parameter it mirrors."""
        attached = self._attached
        message = JSONRPCRequest(jsonrpc="2.0", id=found.id, method=found.method, params=found.params)
        rejected = await param_rejection(attached.server, request, message, found.route, attached.lifespan_state)
        return rejected is None

    async def _serve(self, request: Request, found: Ordinary, data: bytes, receive: Receive, send: Send) -> None:
        """Serve a round here, or pass it on to the node that holds its call."""
        hop: Hop = request.scope["framehold"]
        hop.route = _route(found.method, found.params)
        # All of it as it came: a middleware may edit what it is given.
        client, progress = self._client(found.params["_meta"]), _progress(found.params)
        exchange, search = Exchange(request, found.id, progress, send), Search(self._attached.settings.lease_ttl)
        await self._turns.mine()
        while (elsewhere := await self._round(exchange, found, client, receive)) is not None:
            if hop.relayed and not exchange.streaming:
                await not_held(request.scope, receive, send)
                return
            if hop.relayed:
                await self._out_of_reach(exchange)
                return
            # Nothing of it is in the table: a node that drains meanwhile waits for it all the same.
            with self._attached.runtime.leaving.visited():
                if await self._passed_on(exchange, elsewhere.address, (request.scope, data), receive, search):
                    return
            await self._turns.mine()

    async def _passed_on(
        self, exchange: Exchange, address: str, request: tuple[Scope, bytes], receive: Receive, search: Search
    ) -> bool:
        """Pass a round on to the node at `address`; whether it was answered, or its client left. False where the
        record has to be read again.

        Whoever meets a node that is out of reach waits with all the others: no new pass is made meanwhile, since an
        author's middleware would take each for a request of its own."""
        peers = self._attached.runtime.peers
        if peers.outages.known(address):
            passed = Passed.UNREACHED
        else:
            passed = await peers.forward.pass_on(address, request, receive, exchange.onward())
        if passed is Passed.ANSWERED:
            return True
        hop: Hop = request[0]["framehold"]
        if passed is Passed.BROKEN and hop.route == _BEGINS:
            # It has no token by which a second sending could be told from a second call (rule 9).
            await exchange.error(broke_off().error)
            return True
        if passed is not Passed.UNREACHED and not search.fails():
            return await left(receive, search.pause)
        waited = Waited.LATE
        if passed is Passed.UNREACHED:
            waited = await peers.outages.over(address, receive, search.until)
            if waited is Waited.OVER and search.fails():
                waited = Waited.LATE
        if waited is Waited.LATE:
            await self._out_of_reach(exchange)
        return waited is not Waited.OVER

    async def _out_of_reach(self, exchange: Exchange) -> None:
        told = out_of_reach(self._attached.settings.lease_ttl)
        await exchange.error(told.error, told.retry_after)

    async def _round(
        self, exchange: Exchange, found: Ordinary, client: Connection, receive: Receive
    ) -> Misdirected | None:
        """One pass; where the call is, if that is elsewhere."""
        attached = self._attached
        exchange.open()
        connection = Identity(client)
        main = asyncio.current_task()
        assert main is not None, "a request runs in a task"
        watch = asyncio.get_running_loop().call_later(WATCH_AFTER, exchange.watch, main, receive)
        try:
            kernel = self._kernels[connection.protocol_version]
            result = await kernel.round(exchange, connection, attached.lifespan_state, found.method, found.params)
        except asyncio.CancelledError:
            if not exchange.gone:
                raise
            main.uncancel()
        except Misdirected as elsewhere:
            return elsewhere
        except Unavailable as error:
            await exchange.error(error.error, error.retry_after)
        except Exception as error:
            await exchange.error(modern_error_data(error))
        else:
            await exchange.result(result)
        finally:
            watch.cancel()
            exchange.close()
            if connection.used:
                await aclose_shielded(connection)
        return None

    def _client(self, meta: dict[str, Any]) -> Connection:
        """What a `_meta` says of its client. Parsing it costs more than the rest of a round's beginning: each is
        parsed once."""
        identity: list[Any] = list(map(meta.get, IDENTITY))
        key = to_json(identity)
        known = self._identities.get(key)
        if known is None:
            known = Connection.from_envelope(*identity)
            if len(key) <= _LONG:
                self._identities[key] = known
            if len(self._identities) > _KEPT:
                self._identities.popitem(last=False)
        return known


def _progress(params: dict[str, Any]) -> str | int | None:
    return progress_token_from_params(params) if "progressToken" in params["_meta"] else None


def _route(method: str, params: dict[str, Any]) -> bytes:
    """How a request that is served here found its way: a call begins, or its frame was steered to."""
    state = params.get(saga.TOKEN if method == saga.RESUME else "requestState")
    return b"ring" if isinstance(state, str) and state.startswith(token.HOLD) else _BEGINS
