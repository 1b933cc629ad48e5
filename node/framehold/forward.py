"""Requests passed on to the node that holds their call, or their session.

A relay is a star (PROTOCOL rule 19): what was relayed is never relayed again. The one that relays hears "not held", or
nothing at all, and reads the store again.

    1. a retry reaches this node; the record says that another one owns the call
    2. it is passed on as it came, its body buffered, with the fleet's secret and `framehold-via: node`
    3. the owner answers: status, headers and stream go to the client as they come
    4. the client leaves: the connection to the owner is closed, which cancels the round there
    5. the owner says nothing, and its lease runs out: it is not waited for any longer
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

from framehold_router.internal import NODE, NOT_HELD, ROUTE, VIA, Trust, end_to_end, without_internal
from framehold_router.membership import address_of

from . import clock
from .body import gone
from .exchange import PING
from .hop import Hop

logger = logging.getLogger(__name__)

_UNANSWERED = "the record of a retry is read again, whoever began a call is told that nobody knows what ran"

CONNECT = 1.0
"""Seconds until a node that doesn't accept a connection counts as out of reach."""
_LONGEST = 64 * 1024
"""The longest line of a response's head, as routers have it."""
_REMINDED = 5.0
"""Seconds between two lines of the log about one address that is out of reach: each call there is tried often."""
_OF_SERVERS = (b"date", b"server")
"""What the server of this node puts on every response by itself."""
_AUTOMATIC = ("accept", "accept-encoding", "user-agent", "content-type")


class Passed(Enum):
    """What came of passing a request on."""

    ANSWERED = "its response went to the client, or the client left"
    NOT_HELD = "that node does not hold the call"
    UNREACHED = "nothing was sent: it accepts no connection"
    BROKEN = "it was sent, and no response came"


class Forward:
    """Passes requests on. `absent` returns when no lease names an address any more."""

    def __init__(self, trust: Trust, absent: Callable[[str], Awaitable[None]]) -> None:
        self._trust, self._absent = trust, absent
        self._http: aiohttp.ClientSession | None = None
        self._told: dict[str, float] = {}

    async def close(self) -> None:
        """Let go of connections; requests that are being passed on are cut off."""
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def pass_on(self, address: str, request: tuple[Scope, bytes], receive: Receive, send: Send) -> Passed:
        """Send a request (its scope and its whole body) to the node at `address`, and its response to the client."""
        hop: Hop = request[0]["framehold"]
        begun = asyncio.Event()
        passing = asyncio.ensure_future(self._pass(address, request, hop, send, begun))
        leaving = asyncio.ensure_future(gone(receive))
        vanishing = asyncio.ensure_future(self._absent(address))
        try:
            await asyncio.wait((passing, leaving, vanishing), return_when=asyncio.FIRST_COMPLETED)
            if vanishing.done() and not passing.done() and not leaving.done() and not begun.is_set():
                vanishing.result()
                told = "the node at %.200r says nothing, and its lease is gone: it is not waited for; %s"
                logger.warning(told, address, _UNANSWERED)
                return Passed.BROKEN
            await asyncio.wait((passing, leaving), return_when=asyncio.FIRST_COMPLETED)
            # A client that left needs no response: there is nothing to try again.
            return passing.result() if passing.done() else Passed.ANSWERED
        finally:
            for task in (passing, leaving, vanishing):
                task.cancel()

    async def reached(self, address: str) -> bool:
        """Whether a node accepts connections."""
        place = address_of(address)
        if place is None:
            return False
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(*place), CONNECT)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    async def _pass(
        self, address: str, request: tuple[Scope, bytes], hop: Hop, send: Send, begun: asyncio.Event
    ) -> Passed:
        if address_of(address) is None:
            self._warn(address, "it is no http://host:port (FRAMEHOLD_ADVERTISE_URL of that node)")
            return Passed.UNREACHED
        try:
            async with self._asked(address, *request) as response:
                if NOT_HELD.decode() in response.headers:
                    return Passed.NOT_HELD
                begun.set()
                await _stream(response, hop, send)
                return Passed.ANSWERED
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
            # Its name alone: errors of aiohttp show URL and headers of the request, the fleet's secret among them.
            self._warn(address, type(error).__name__)
            return Passed.UNREACHED
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            follows = "the client's response is cut" if begun.is_set() else _UNANSWERED
            logger.warning("a node at %.200r broke off (%s): %s", address, type(error).__name__, follows)
            if begun.is_set():
                raise
            return Passed.BROKEN

    def _asked(self, address: str, scope: Scope, body: bytes) -> Any:
        """The request on its way, its bytes as they came."""
        if self._http is None:
            limits = aiohttp.ClientTimeout(total=None, connect=2 * CONNECT, sock_connect=CONNECT, sock_read=2 * PING)
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=limits,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                max_line_size=_LONGEST,
                max_field_size=_LONGEST,
            )
        headers = [*end_to_end(scope["headers"]), self._trust.header, (VIA, b"node")]
        return self._http.request(
            scope["method"],
            URL(address.rstrip("/") + _target(scope), encoded=True),
            data=body or None,
            headers=[(name.decode("latin-1"), _text(value)) for name, value in headers],
            skip_auto_headers=_AUTOMATIC,
            allow_redirects=False,
        )

    def _warn(self, address: str, why: str) -> None:
        """One line about an address now and then, however many requests wait for it."""
        now = clock.now()
        if now - self._told.get(address, -math.inf) < _REMINDED:
            return
        self._told = {other: at for other, at in self._told.items() if now - at < _REMINDED}
        self._told[address] = now
        told = "a node at %.200r is out of reach (%s): its calls wait for it, or for its lease to run out"
        logger.warning(told, address, why)


def _text(value: bytes) -> str:
    """A header's value as aiohttp has to be given it: it writes UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


async def _stream(response: aiohttp.ClientResponse, hop: Hop, send: Send) -> None:
    served = response.headers.get(NODE.decode())
    if served is not None:
        route = response.headers.get(ROUTE.decode())
        hop.node, hop.route = served.encode("latin-1"), b"takeover" if route == "takeover" else b"lease"
    headers = without_internal(end_to_end([(name.lower(), value) for name, value in response.raw_headers]))
    headers = [item for item in headers if item[0] not in _OF_SERVERS]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    async for chunk in response.content.iter_any():
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _target(scope: Scope) -> str:
    query = scope.get("query_string", b"").decode("latin-1")
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    return f"{path}?{query}" if query else path
