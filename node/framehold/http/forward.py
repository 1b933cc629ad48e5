"""Forwards requests to the node that holds their call, or their session.

A relay is a star (docs/protocol.md, rule 19): a request that was relayed is never relayed again. The node that relays
gets the response "not held", or none at all, and reads the store again.

    1. a retry reaches this node; the record says that another node owns the call
    2. this node forwards the request as it came, its body buffered, with the fleet's secret and `framehold-via: node`
    3. the owner responds: status, headers and stream go to the client as they come
    4. the client leaves: this node closes the connection to the owner, which cancels the round there
    5. the owner does not respond and its lease runs out: this node does not wait for it any longer
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any

import aiohttp
from starlette.types import Receive, Scope, Send
from yarl import URL

from framehold_router.fleet.address import address_of
from framehold_router.fleet.trust import NODE, NOT_HELD, ROUTE, VIA, Trust, end_to_end, without_internal
from framehold_router.telemetry.log_bursts import LogBursts
from framehold_store import system_clock

from ..frame.logged_call import log_fields
from ..sdk.hop import Hop
from .body import gone
from .exchange import PING

logger = logging.getLogger(__name__)

_UNANSWERED = "the record of a retry is read again, whoever began a call is told that nobody knows what ran"

CONNECT = 1.0
"""Seconds until a node that doesn't accept a connection counts as out of reach."""
MAX_HEAD_LINE_BYTES = 64 * 1024
"""The longest line of a response's head that is accepted. Routers have the same limit."""
_LOG_INTERVAL = 5.0
"""Seconds between two log lines about one address that is out of reach: each call there is tried often."""
_SERVER_HEADERS = (b"date", b"server")
"""Headers that this node's own HTTP server puts on every response."""
_AIOHTTP_HEADERS = ("accept", "accept-encoding", "user-agent", "content-type")
"""Headers that aiohttp would add to a request. A request is forwarded as it came."""


class ForwardResult(Enum):
    """The result of forwarding a request."""

    ANSWERED = "its response went to the client, or the client left"
    NOT_HELD = "that node does not hold the call"
    UNREACHED = "nothing was sent: it accepts no connection"
    BROKEN = "it was sent, and no response came"
    VANISHED = "it was sent, and the node did not answer until its lease was gone"


class Forward:
    """Forwards requests to other nodes. `wait_absent` returns when no lease names an address any more."""

    def __init__(self, trust: Trust, wait_absent: Callable[[str], Awaitable[None]]) -> None:
        self._trust, self._wait_absent = trust, wait_absent
        self._http: aiohttp.ClientSession | None = None
        self._bursts = LogBursts(logger)
        self._logged: dict[str, float] = {}
        """When an address was last logged as out of reach, in seconds on the node's clock."""

    async def close(self) -> None:
        """Close the connections to other nodes. Requests that are being forwarded are cut off."""
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def forward(self, address: str, request: tuple[Scope, bytes], receive: Receive, send: Send) -> ForwardResult:
        """Send a request (its scope and its whole body) to the node at `address`, and its response to the client.

        Raises:
            aiohttp.ClientError, TimeoutError, OSError: the response broke off after it had begun.
        """
        hop: Hop = request[0]["framehold"]
        begun = asyncio.Event()
        sending = asyncio.ensure_future(self._send(address, request, hop, send, begun))
        leaving = asyncio.ensure_future(gone(receive))
        vanishing = asyncio.ensure_future(self._wait_absent(address))
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

    async def accepts_connections(self, address: str) -> bool:
        """Whether the node at `address` accepts a connection within `CONNECT` seconds."""
        place = address_of(address)
        if place is None:
            return False
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(*place), CONNECT)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    async def _send(
        self, address: str, request: tuple[Scope, bytes], hop: Hop, send: Send, begun: asyncio.Event
    ) -> ForwardResult:
        """Send a request, and its response to the client. Sets `begun` when the response begins."""
        if address_of(address) is None:
            self._warn(address, "it is no http://host:port (FRAMEHOLD_ADVERTISE_URL of that node)")
            return ForwardResult.UNREACHED
        try:
            async with self._request(address, *request) as response:
                if NOT_HELD.decode() in response.headers:
                    return ForwardResult.NOT_HELD
                begun.set()
                await _stream(response, hop, send)
                return ForwardResult.ANSWERED
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
            # Only the error's name: errors of aiohttp show URL and headers of the request, and so the fleet's secret.
            self._warn(address, type(error).__name__)
            return ForwardResult.UNREACHED
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            what = type(error).__name__
            if begun.is_set():
                logger.warning("a node at %.200r broke off (%s): the client's response is cut", address, what)
                raise
            text = "a node at %.200r broke off (%s): %s"
            self._bursts.warning(text, address, what, _UNANSWERED, extra=log_fields())
            return ForwardResult.BROKEN

    def _request(self, address: str, scope: Scope, body: bytes) -> Any:
        """Send the request to `address`, its bytes as they came. Returns aiohttp's context manager of the response."""
        if self._http is None:
            limits = aiohttp.ClientTimeout(total=None, connect=2 * CONNECT, sock_connect=CONNECT, sock_read=2 * PING)
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=limits,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                max_line_size=MAX_HEAD_LINE_BYTES,
                max_field_size=MAX_HEAD_LINE_BYTES,
            )
        headers = [*end_to_end(scope["headers"]), self._trust.header, (VIA, b"node")]
        return self._http.request(
            scope["method"],
            URL(address.rstrip("/") + _target(scope), encoded=True),
            data=body or None,
            headers=[(name.decode("latin-1"), _text(value)) for name, value in headers],
            skip_auto_headers=_AIOHTTP_HEADERS,
            allow_redirects=False,
        )

    def _warn(self, address: str, why: str) -> None:
        """Log that an address is out of reach, once in `_LOG_INTERVAL` however many requests wait for it."""
        now = system_clock.now()
        if now - self._logged.get(address, -math.inf) < _LOG_INTERVAL:
            return
        self._logged = {other: at for other, at in self._logged.items() if now - at < _LOG_INTERVAL}
        self._logged[address] = now
        text = "a node at %.200r is out of reach (%s): its calls wait for it, or for its lease to run out"
        logger.warning(text, address, why)


def _text(value: bytes) -> str:
    """A header's value as text, so that aiohttp, which writes UTF-8, sends the same bytes where they are UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


async def _stream(response: aiohttp.ClientResponse, hop: Hop, send: Send) -> None:
    """Send another node's response to the client as it comes, and note in `hop` which node served the request."""
    served = response.headers.get(NODE.decode())
    if served is not None:
        route = response.headers.get(ROUTE.decode())
        hop.node, hop.route = served.encode("latin-1"), b"takeover" if route == "takeover" else b"lease"
    headers = without_internal(end_to_end([(name.lower(), value) for name, value in response.raw_headers]))
    headers = [item for item in headers if item[0] not in _SERVER_HEADERS]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    async for chunk in response.content.iter_any():
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _target(scope: Scope) -> str:
    """The request target as the client sent it: path and query."""
    query = scope.get("query_string", b"").decode("latin-1")
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    return f"{path}?{query}" if query else path
