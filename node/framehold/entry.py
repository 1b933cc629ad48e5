"""The HTTP entry for the three methods of 2026-07-28 that may ask, past Starlette and the SDK's task group per request.

Only the ordinary is taken here. Whatever is not - another method or era, a header that is missing, twice there or at
odds with the body, malformed JSON - goes to the SDK's own app with its body replayed, so that every rejection is the
SDK's own. What this entry checks itself is what must be known before a request may be called ordinary."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from mcp.server.connection import Connection
from mcp.server.runner import ServerRunner, modern_error_data
from mcp.server.streamable_http import check_accept_headers
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import InboundModernRoute, classify_inbound_request, find_duplicated_routing_header
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import INVALID_PARAMS, ErrorData, JSONRPCRequest
from mcp_types.methods import INPUT_REQUIRED_METHODS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import from_json, to_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .attach import Attached, param_rejection
from .exchange import WATCH_AFTER, Exchange
from .replies import Unavailable

_METHODS = {method.encode() for method in INPUT_REQUIRED_METHODS}
_VERSIONS = {version.encode() for version in MODERN_PROTOCOL_VERSIONS}
_IDENTITIES = 1024
"""Client identities whose parsed form is kept."""


class TooLarge(Exception):
    """A body beyond FRAMEHOLD_MAX_BODY."""


class Entry:
    """Serves ordinary rounds itself and gives everything else to `rest`, the SDK's endpoint."""

    def __init__(self, attached: Attached, rest: ASGIApp, security: TransportSecuritySettings | None) -> None:
        self._attached, self._rest = attached, rest
        self._security = TransportSecurityMiddleware(security)
        self._limit = attached.settings.max_body
        self._identities: OrderedDict[bytes, Connection] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # httptools keeps white space round a header's value; h11 and the protocol don't.
        headers = scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        named = dict(headers)
        ordinary = (
            scope["method"] == "POST"
            and named.get(b"mcp-protocol-version") in _VERSIONS
            and named.get(b"mcp-method") in _METHODS
        )
        if not ordinary:
            await self._rest(scope, receive, send)
            return
        body = _Body(receive, self._limit)
        request = Request(scope, body.receive)
        try:
            declared = named.get(b"content-length", b"0")
            if declared.isdigit() and int(declared) > self._limit:
                raise TooLarge
            if (rejection := await self._security.validate_request(request, is_post=True)) is not None:
                await rejection(scope, receive, send)
                return
            data = await request.body()
        except TooLarge:
            text = f"Request body too large: the limit is {self._limit} bytes (FRAMEHOLD_MAX_BODY); nothing was started"
            await Response(text, status_code=413, headers={"connection": "close"})(scope, receive, send)
            return
        message, route = await self._classified(request, data)
        if message is None or route is None:
            await self._rest(scope, body.replay, send)
            return
        await self._serve(request, message, route, send)

    async def _classified(
        self, request: Request, data: bytes
    ) -> tuple[JSONRPCRequest | None, InboundModernRoute | None]:
        """The request and its route, or (None, None) for whatever is not ordinary."""
        try:
            decoded = from_json(data)
            message = JSONRPCRequest.model_validate(decoded)
        except (ValueError, ValidationError, RecursionError):
            return None, None
        if not all(check_accept_headers(request)) or find_duplicated_routing_header(request.headers.items()):
            return None, None
        route = classify_inbound_request(decoded, headers=dict(request.headers))
        if not isinstance(route, InboundModernRoute):
            return None, None
        attached = self._attached
        if await param_rejection(attached.server, request, message, route, attached.lifespan_state) is not None:
            return None, None
        return message, route

    async def _serve(self, request: Request, message: JSONRPCRequest, route: InboundModernRoute, send: Send) -> None:
        params = message.params
        exchange = Exchange(request, message.id, progress_token_from_params(params), send)
        runner = ServerRunner(self._attached.server, self._connection(route), self._attached.lifespan_state)
        main = asyncio.current_task()
        assert main is not None, "a request runs in a task"
        watch = asyncio.get_running_loop().call_later(WATCH_AFTER, exchange.watch, main)
        try:
            result = await runner.on_request(exchange, message.method, params)
        except asyncio.CancelledError:
            if not exchange.gone:
                raise
            main.uncancel()
        except Unavailable as error:
            await exchange.error(error.error, error.retry_after)
        except MCPError as error:
            await exchange.error(error.error)
        except ValidationError:
            await exchange.error(ErrorData(code=INVALID_PARAMS, message="Invalid request parameters", data=""))
        except Exception as error:
            await exchange.error(modern_error_data(error))
        else:
            await exchange.result(result)
        finally:
            watch.cancel()
            exchange.close()

    def _connection(self, route: InboundModernRoute) -> Connection:
        """A connection with this client's identity. Parsing an identity costs more than the rest of it: parse each
        once."""
        key = to_json([route.protocol_version, route.client_info, route.client_capabilities])
        known = self._identities.get(key)
        if known is None:
            known = Connection.from_envelope(route.protocol_version, route.client_info, route.client_capabilities)
            self._identities[key] = known
            if len(self._identities) > _IDENTITIES:
                self._identities.popitem(last=False)
        fresh = Connection(known.outbound, protocol_version=route.protocol_version, client_params=known.client_params)
        fresh.client_capabilities = known.client_capabilities
        fresh.initialized.set()
        return fresh


class _Body:
    """Counts a request's body while it is read, and plays it again for another reader."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._limit, self._size = receive, limit, 0
        self._read: list[Message] = []

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request" and self._size <= self._limit:
            self._size += len(message.get("body", b""))
            if self._size > self._limit:
                raise TooLarge
            self._read.append(message)
        return message

    async def replay(self) -> Message:
        return self._read.pop(0) if self._read else await self._receive()
