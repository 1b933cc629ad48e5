"""The HTTP entry for the methods that may ask on 2026-07-28: three of the protocol, and two of sagas where these are on
(FRAMEHOLD_SAGAS). It goes past Starlette and past the SDK's task group for each request.

The entry serves requests that nothing is wrong with. Any other request goes to the SDK's own app, with its body
replayed: another method, another era, a header that is missing, that is there twice or that contradicts the body,
malformed JSON. So every rejection is the SDK's own. The entry itself checks only what tells its requests from others.
Before it, `ordinary_rounds` has taken what it serves by a shorter path."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from contextvars import copy_context
from enum import Enum
from typing import Any

import anyio
from mcp.server.connection import Connection
from mcp.server.runner import aclose_shielded, modern_error_data
from mcp.server.streamable_http import check_accept_headers
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp.shared.inbound import NAME_BEARING_METHODS
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import JSONRPCRequest
from mcp_types.methods import INPUT_REQUIRED_METHODS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from framehold_core import token

from ..frame.logged_call import NamedCall, logged_call
from ..hosts.attached import Attached
from ..sdk.hop import Hop
from ..sdk.inbound import mirrors_nothing, param_rejection
from ..sdk.plan import argument_names
from ..sdk.replies import Misdirected, NotTaken, Unavailable, broke_off, cut_off, not_held, out_of_reach, too_large
from ..sdk.token import Target
from ..telemetry import tracing
from ..wires import saga
from .body import Body, Reception, left
from .classify import Classified, classified
from .client_identities import ClientIdentities
from .connection import Identity
from .exchange import Exchange
from .forward import ForwardResult
from .heads import Heads
from .kernel import Kernel
from .node_relay import NodeRelay
from .outages import OwnerSearch, WaitResult
from .pacing import Pacing
from .watches import Watches

_VERSIONS = {version.encode() for version in MODERN_PROTOCOL_VERSIONS}
_CHECKED_HEADERS = {b"host", b"origin", b"content-type", b"accept"}
MAX_CACHED = 1024
"""How many sets of headers, and how many tool schemas, are kept with the result of their check."""
MAX_HEADER_BYTES = 4096
"""Bytes up to which a set of headers is kept: clients choose their headers, and the set stays."""
_BEGINS = b"start"
"""The route of a request that begins a call."""
MAX_LENGTH_DIGITS = 20
"""A content length of more digits is too large. It is not converted: Python converts some thousands of digits only."""


class _Next(Enum):
    """What the entry does after it tried to forward a request to the node that holds the call."""

    FINISH = "nothing more: the client has its response, or left"
    REPORT_BROKEN = "reply that nobody knows whether the call was run"
    READ_AGAIN = "after a pause, read the call's record again: another node may own the call by now"
    AWAIT_OWNER = "wait until the owner is back or its lease has run out, then read the record again"


_NEXT_STEP = {
    # The result of forwarding, and whether the request begins a call.
    (ForwardResult.ANSWERED, True): _Next.FINISH,
    (ForwardResult.ANSWERED, False): _Next.FINISH,
    (ForwardResult.NOT_HELD, True): _Next.READ_AGAIN,
    (ForwardResult.NOT_HELD, False): _Next.READ_AGAIN,
    (ForwardResult.UNREACHED, True): _Next.AWAIT_OWNER,
    (ForwardResult.UNREACHED, False): _Next.AWAIT_OWNER,
    # A new call has no token: nothing would distinguish a second sending from a second call (docs/protocol.md, rule 9).
    (ForwardResult.BROKEN, True): _Next.REPORT_BROKEN,
    (ForwardResult.BROKEN, False): _Next.READ_AGAIN,
    (ForwardResult.VANISHED, True): _Next.REPORT_BROKEN,
    (ForwardResult.VANISHED, False): _Next.READ_AGAIN,
}
"""What follows when another node holds the call. A request that a node relayed is never forwarded (docs/protocol.md,
rule 19), so it is not in the table: `HttpEntry._refuse_relayed` replies to it. READ_AGAIN and AWAIT_OWNER follow only
while the request may try again (`OwnerSearch`); after that the reply is that the owner is out of reach."""


class HttpEntry:
    """Serves requests of methods that may ask, and gives every other request to `rest`, the SDK's endpoint. `wrapped`
    says whether middlewares of the author stand before it."""

    def __init__(
        self,
        attached: Attached,
        relay: NodeRelay,
        rest: ASGIApp,
        security: TransportSecuritySettings | None,
        reception: Reception,
        wrapped: bool,
    ) -> None:
        self._attached, self._relay, self._rest, self._reception = attached, relay, rest, reception
        self._is_wrapped = wrapped
        self._security = TransportSecurityMiddleware(security)
        self._limit = reception.limit
        asking = INPUT_REQUIRED_METHODS | (saga.METHODS if attached.settings.sagas else frozenset())
        self._methods = {method.encode() for method in asking}
        self.identities = ClientIdentities()
        self._accepted: set[tuple[tuple[bytes, bytes], ...]] = set()
        self._unmirrored: dict[str, Any] = {}
        """The last input schema of each tool that mirrors no parameter in a header."""
        self.turns, self.watches = Pacing(), Watches()
        self._kernels = {
            version: Kernel(attached.server, version, self.identities) for version in MODERN_PROTOCOL_VERSIONS
        }
        self.heads = Heads()
        """The heads of the requests that were served."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and (len(declared) > MAX_LENGTH_DIGITS or int(declared) > self._limit):
            await too_large(f"the limit is {self._limit} bytes (FRAMEHOLD_MAX_BODY)", receive, send)
            return
        if scope["method"] != "POST":
            await self._rest(scope, receive, send)
            return
        with self._reception.intake.request() as held:
            body = Body(receive, self._limit, held)
            if (data := await self._reception.whole(body, held, scope, receive, send)) is not None:
                await self._enter(Request(scope, body.replay), headers, data, receive, send)

    async def _enter(
        self, request: Request, headers: dict[bytes, bytes], data: bytes, receive: Receive, send: Send
    ) -> None:
        """Serve a request whose body was received."""
        scope, found = request.scope, None
        scope["framehold"].distrust_call(data)
        may_ask = headers.get(b"mcp-protocol-version") in _VERSIONS and headers.get(b"mcp-method") in self._methods
        if may_ask and await self._acceptable(request):
            found = classified(scope["headers"], data)
        if found is None or not (self._mirrors_nothing(found) or await self._mirrors_correctly(request, found)):
            await self._rest(scope, request.receive, send)
            return
        if (key := NAME_BEARING_METHODS.get(found.method)) and type(name := found.params.get(key)) is str:
            self.heads.learn(scope["headers"], Target(found.method, name, found.method if key == "uri" else name))
        await self._serve(request, found, data, receive, send)

    def kernel(self, version: str) -> Kernel:
        """What serves requests of one revision."""
        return self._kernels[version]

    async def _acceptable(self, request: Request) -> bool:
        """Whether the SDK accepts the headers host, origin, content-type and accept. The SDK checks each set of them
        once. It reads the first copy of a header that is there twice, so the set holds every copy, in order."""
        checked = tuple([item for item in request.scope["headers"] if item[0] in _CHECKED_HEADERS])
        if checked in self._accepted:
            return True
        refused = await self._security.validate_request(request, is_post=True) is not None
        if refused or not all(check_accept_headers(request)):
            return False
        if len(self._accepted) >= MAX_CACHED:
            self._accepted.clear()
        if sum(len(value) for _, value in checked) <= MAX_HEADER_BYTES:
            self._accepted.add(checked)
        return True

    def _mirrors_nothing(self, found: Classified) -> bool:
        """Whether the request's tool is known to mirror no parameter in a header: then there is no header to check.
        The promise: the server gives the same schema object as when it was checked."""
        server = self._attached.server
        if found.method != "tools/call" or server.get_tool_input_schema is None:
            return found.method != "tools/call"
        name = str(found.params.get("name"))
        schema = server.get_tool_input_schema(name)
        if schema is None or self._unmirrored.get(name) is schema:
            return schema is not None
        if mirrors_nothing(schema) and len(self._unmirrored) < MAX_CACHED:
            self._unmirrored[name] = schema
        return False

    def _arguments(self, found: Classified) -> Collection[str] | None:
        """The names of the arguments that the tool of a request has; None: not known."""
        schema_of = self._attached.server.get_tool_input_schema
        schema = None if found.method != "tools/call" or schema_of is None else schema_of(str(found.params.get("name")))
        return argument_names(schema)

    async def _mirrors_correctly(self, request: Request, found: Classified) -> bool:
        """Whether the SDK finds that each header equals the parameter that it mirrors."""
        attached = self._attached
        message = JSONRPCRequest(jsonrpc="2.0", id=found.id, method=found.method, params=found.params)
        rejected = await param_rejection(attached.server, request, message, found.route, attached.lifespan_state)
        return rejected is None

    async def _serve(self, request: Request, found: Classified, data: bytes, receive: Receive, send: Send) -> None:
        """Serve a round here, or forward it to the node that holds its call."""
        hop: Hop = request.scope["framehold"]
        hop.offers = not hop.relayed
        if hop.weight:
            hop.arguments = self._arguments(found)
        before = logged_call.set(_named(found, hop))
        # These are read now, as they came: a middleware may edit the parameters.
        client, meta = self.identities.connection(found.params["_meta"]), found.params["_meta"]
        progress = progress_token_from_params(found.params) if "progressToken" in meta else None
        exchange = Exchange(request.scope, request.receive, found.id, progress, send)
        draining = self._attached.runtime.draining
        draining.unanswered += 1
        try:
            await self.turns.mine()
            elsewhere = await self._round(exchange, found, client, receive)
            if elsewhere is not None and hop.relayed:
                await self._refuse_relayed(exchange, request, receive, send)
            elif elsewhere is not None:
                await self.serve_elsewhere(exchange, found, client, data, receive, elsewhere)
        except asyncio.CancelledError:
            await self.cut_off(exchange)
            raise
        finally:
            draining.unanswered -= 1
            if draining.closed:
                draining.responded()
            # A handler may send this request within its own task, whose lines belong to its own call.
            logged_call.reset(before)

    async def cut_off(self, exchange: Exchange) -> None:
        """Reply to a request that the HTTP server cuts off, since it ends; by itself it would reply 500, without a
        word. Where middlewares stand before this entry, one of them may have cancelled the request, and reply itself;
        at the end of the server `Outside` replies."""
        if not self._is_wrapped:
            await exchange.cut_off(cut_off().error, self._attached.runtime.retry_after)

    async def serve_elsewhere(
        self,
        exchange: Exchange,
        found: Classified,
        client: Connection,
        data: bytes,
        receive: Receive,
        elsewhere: Misdirected,
    ) -> None:
        """Forward a round to the node that holds its call; where that fails, run it here again, which reads the record
        again."""
        search, misdirected = OwnerSearch(self._attached.settings.lease_ttl), elsewhere
        request = (exchange.scope, data)
        while True:
            # The table has no slot for this request. A node that drains waits for the request all the same.
            with self._attached.runtime.draining.visited():
                if await self._forward(exchange, misdirected.address, request, receive, search):
                    return
            await self.turns.mine()
            again = await self._round(exchange, found, client, receive)
            if again is None:
                return
            misdirected = again

    async def _refuse_relayed(self, exchange: Exchange, request: Request, receive: Receive, send: Send) -> None:
        """Reply to a node that relayed a request of a call which is not held here (docs/protocol.md, rule 19)."""
        if exchange.streaming:
            # The response has begun: only an error can follow.
            await self._reply_out_of_reach(exchange)
        else:
            await not_held(request.scope, receive, send)

    async def _forward(
        self, exchange: Exchange, address: str, request: tuple[Scope, bytes], receive: Receive, search: OwnerSearch
    ) -> bool:
        """Forward a round to the node at `address`, and do what `_NEXT_STEP` says about the result.

        While a node is out of reach the round waits, and makes no new pass through the kernel: an author's middleware
        would take each pass for a request of its own.

        Returns:
            True: the round is finished. False: the record has to be read again.
        """
        relay, hop, began = self._relay, request[0]["framehold"], time.time_ns()
        is_offer, hop.offered_to = hop.offered_to == address, None
        if relay.outages.is_watched(address):
            # Other requests wait for this node already: their watch tries to connect.
            result = ForwardResult.UNREACHED
        else:
            result = await relay.forward.forward(address, request, receive, exchange.onward())
        if result is ForwardResult.VANISHED:
            tracing.record_lease_wait(began, address, result.name.lower())
        step = _NEXT_STEP[result, hop.route == _BEGINS]
        if is_offer and step is _Next.AWAIT_OWNER:
            # That node would only have been the better one: this node may claim the call.
            step = _Next.READ_AGAIN
        match step:
            case _Next.FINISH:
                return True
            case _Next.REPORT_BROKEN:
                await exchange.error(broke_off().error)
                return True
            case _Next.READ_AGAIN:
                if search.may_go_on():
                    return await left(receive, search.pause)
            case _Next.AWAIT_OWNER:
                waited = await relay.outages.wait(address, receive, search.deadline)
                tracing.record_lease_wait(began, address, waited.name.lower())
                if waited is WaitResult.LEFT:
                    return True
                if waited is WaitResult.OVER and search.may_go_on():
                    return False
        await self._reply_out_of_reach(exchange)
        return True

    async def _reply_out_of_reach(self, exchange: Exchange) -> None:
        reply = out_of_reach(self._attached.settings.lease_ttl)
        await exchange.error(reply.error, reply.retry_after)

    async def _round(
        self, exchange: Exchange, found: Classified, client: Connection, receive: Receive
    ) -> Misdirected | None:
        """Run the round through the kernel once, and write the reply. Returns the `Misdirected` that names the other
        node where another node holds the call; nothing was replied then."""
        kernel = self._kernels[client.protocol_version]
        exchange.closed = False
        # What a middleware shields from cancellation is shielded from a scope only.
        with anyio.CancelScope() as scope:
            self.watches.add(exchange, receive, scope.cancel, copy_context())
            return await self._pass(kernel, exchange, found, client)
        return None

    async def _pass(
        self, kernel: Kernel, exchange: Exchange, found: Classified, client: Connection
    ) -> Misdirected | None:
        connection = Identity(client)
        try:
            state = self._attached.lifespan_state
            result = await kernel.round(exchange, connection, state, found.method, found.params)
        except Misdirected as elsewhere:
            return elsewhere
        except Unavailable as error:
            if isinstance(error, NotTaken):
                exchange.scope["framehold"].prove_not_taken(self._attached.runtime)
            await exchange.error(error.error, error.retry_after)
        except Exception as error:
            await exchange.error(modern_error_data(error))
        else:
            await exchange.result(result)
        finally:
            self.watches.remove(exchange)
            if not exchange.closed:
                exchange.close()
            connection.leave()
            if connection.used:
                await aclose_shielded(connection)
        return None


def _named(found: Classified, hop: Hop) -> NamedCall | None:
    """The call that a request names before anything of it is verified: by its token, or by the id that a router gave
    it. Sets the route of the request: `start` where it begins a call, `ring` where its token led to this node."""
    state = found.params.get(saga.TOKEN if found.method == saga.RESUME else "requestState")
    if isinstance(state, str):
        hop.route, call = b"ring" if state.startswith(token.HOLD) else _BEGINS, token.named(state)
    else:
        hop.route, call = _BEGINS, hop.call
    return None if call is None else NamedCall(call)
