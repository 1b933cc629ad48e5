"""Forwards requests to the node that holds their call, or their session.

A relay is a star (docs/protocol.md, rule 19): a request that was relayed is never relayed again. The node that relays
gets the response "not held", or none at all, and reads the store again.

    1. a retry reaches this node; the record says that another node owns the call
    2. this node forwards the request as it came, its body buffered, when the process at the owner's address has proved
       that it is the owner; it states that a node relays
    3. the owner responds: status, headers and stream go to the client as they come
    4. the client leaves: this node closes the connection to the owner, which cancels the round there
    5. the owner does not respond and its lease runs out: this node does not wait for it any longer
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from urllib.parse import quote

from starlette.types import Receive, Scope, Send

from framehold_fleet.headers import NODE, NOT_HELD, ROUTE, end_to_end, without_internal
from framehold_fleet.http_client.incoming import BrokenOff, IncomingResponse
from framehold_fleet.http_client.node_connection import LinkFailure
from framehold_fleet.http_client.response_head import ResponseHead
from framehold_fleet.http_client.upstream import Upstream
from framehold_fleet.identity.statements import Role
from framehold_fleet.members.address import Receiver
from framehold_fleet.telemetry.log_bursts import LogBursts
from framehold_store import system_clock

from ..engine.peers import Peers
from ..frame.logged_call import log_fields
from ..sdk.hop import Hop
from .body import gone
from .exchange import PING

logger = logging.getLogger(__name__)

_UNANSWERED = "the record of a retry is read again, whoever began a call is told that nobody knows what ran"

CONNECT = 1.0
"""Seconds until a node that doesn't accept a connection counts as out of reach."""
_LOG_INTERVAL = 5.0
"""Seconds between two log lines about one address that is out of reach: each call there is tried often."""
_SERVER_HEADERS = (b"date", b"server")
"""Headers that this node's own HTTP server puts on every response."""


class ForwardResult(Enum):
    """The result of forwarding a request."""

    ANSWERED = "its response went to the client, or the client left"
    NOT_HELD = "that node does not hold the call"
    UNREACHED = "nothing was sent: it accepts no connection, or did not prove who it is"
    BROKEN = "it was sent, and no response came"
    VANISHED = "it was sent, and the node did not answer until its lease was gone"


class Forward:
    """Forwards requests to other nodes."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._upstream: Upstream | None = None
        self._bursts = LogBursts(logger)
        self._logged: dict[str, float] = {}
        """When an address was last logged as out of reach, in seconds on the node's clock."""

    async def close(self) -> None:
        """Close the connections to other nodes. Requests that are being forwarded are cut off."""
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            await upstream.close()

    async def forward(self, address: str, request: tuple[Scope, bytes], receive: Receive, send: Send) -> ForwardResult:
        """Send a request (its scope and its whole body) to the node at `address`, and its response to the client.

        Raises:
            BrokenOff: the response broke off after it had begun.
        """
        receiver = await self._peers.receiver(address)
        if receiver is None:
            what = "no lease names it, or the FRAMEHOLD_ADVERTISE_URL of that node is no http(s)://host:port"
            self._warn(address, what)
            return ForwardResult.UNREACHED
        begun = asyncio.Event()
        sending = asyncio.ensure_future(self._send(address, receiver, request, send, begun))
        leaving = asyncio.ensure_future(gone(receive))
        vanishing = asyncio.ensure_future(self._peers.vanished(receiver.boots))
        try:
            await asyncio.wait((sending, leaving, vanishing), return_when=asyncio.FIRST_COMPLETED)
            if vanishing.done() and (error := vanishing.exception()) is not None:
                # The request is under way: it is waited for without the watch.
                logger.error("a bug in watching the lease of the node at %.200r", address, exc_info=error)
            elif vanishing.done() and not sending.done() and not leaving.done() and not begun.is_set():
                text = "the node at %.200r says nothing, and its lease is gone: it is not waited for; %s"
                self._bursts.warning(text, address, _UNANSWERED, extra=log_fields())
                return ForwardResult.VANISHED
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            # A client that left needs no response: there is nothing to try again.
            return sending.result() if sending.done() else ForwardResult.ANSWERED
        finally:
            for task in (sending, leaving, vanishing):
                task.cancel()

    async def reaches(self, address: str) -> bool:
        """Whether the node that leases name at `address` accepts a connection, and proves who it is."""
        receiver = await self._peers.receiver(address)
        return receiver is not None and await self._connections().reaches(receiver)

    async def _send(
        self, address: str, receiver: Receiver, request: tuple[Scope, bytes], send: Send, begun: asyncio.Event
    ) -> ForwardResult:
        """Send a request, and its response to the client. Sets `begun` when the response begins."""
        hop: Hop = request[0]["framehold"]
        try:
            async with self._response(receiver, *request) as (head, incoming):
                if any(name == NOT_HELD for name, _ in head.headers):
                    return ForwardResult.NOT_HELD
                begun.set()
                await _stream(head, incoming, hop, send)
                return ForwardResult.ANSWERED
        except BrokenOff as error:
            if error.why is LinkFailure.NOT_SENT:
                self._warn(address, "it accepts no connection, or did not prove who it is")
                return ForwardResult.UNREACHED
            what = error.why.value
            if begun.is_set():
                logger.warning("a node at %.200r broke off (%s): the client's response is cut", address, what)
                raise
            text = "a node at %.200r broke off (%s): %s"
            self._bursts.warning(text, address, what, _UNANSWERED, extra=log_fields())
            return ForwardResult.BROKEN

    @asynccontextmanager
    async def _response(
        self, receiver: Receiver, scope: Scope, body: bytes
    ) -> AsyncIterator[tuple[ResponseHead, IncomingResponse]]:
        """The response to a request, which is sent as it came."""
        method = scope["method"].encode()
        parts = [method, b" ", _target(scope), b" HTTP/1.1\r\n"]
        for name, value in end_to_end(scope["headers"]):
            parts += (name, b": ", value, b"\r\n")
        if body or method == b"POST":
            parts.append(b"content-length: %d\r\n" % len(body))
        incoming, head = IncomingResponse(), b"".join(parts)
        incoming.link = self._connections().send(receiver, head, body, incoming, mute=method == b"HEAD")
        try:
            yield await incoming.head(), incoming
        finally:
            incoming.abort()

    def _connections(self) -> Upstream:
        if self._upstream is None:
            limits = {"connect_timeout": CONNECT, "timeout": 2 * PING}
            self._upstream = Upstream(self._peers.trust, Role.NODE, self._peers.clock, **limits)
        return self._upstream

    def _warn(self, address: str, why: str) -> None:
        """Log that an address is out of reach, once in `_LOG_INTERVAL` however many requests wait for it."""
        now = system_clock.now()
        if now - self._logged.get(address, -math.inf) < _LOG_INTERVAL:
            return
        self._logged = {other: at for other, at in self._logged.items() if now - at < _LOG_INTERVAL}
        self._logged[address] = now
        text = "a node at %.200r is out of reach (%s): its calls wait for it, or for its lease to run out"
        logger.warning(text, address, why)


async def _stream(head: ResponseHead, incoming: IncomingResponse, hop: Hop, send: Send) -> None:
    """Send another node's response to the client as it comes, and note in `hop` which node served the request."""
    named = dict(head.headers)
    if NODE in named:
        hop.node, hop.route = named[NODE], b"takeover" if named.get(ROUTE) == b"takeover" else b"lease"
    headers = [item for item in without_internal(end_to_end(head.headers)) if item[0] not in _SERVER_HEADERS]
    await send({"type": "http.response.start", "status": head.status, "headers": headers})
    async for piece in incoming.pieces():
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _target(scope: Scope) -> bytes:
    """The request target as the client sent it: path and query."""
    query: bytes = scope.get("query_string", b"")
    path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    return path + b"?" + query if query else path
