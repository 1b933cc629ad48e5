"""The other nodes: where they are, which call ids the ring maps to this one, and requests passed on to them.

A relay is a star (PROTOCOL rule 19): what was relayed is never relayed again. The one that relays hears "not held", or
nothing at all, and reads the store again.

    1. a retry reaches this node; the record says that another one owns the call
    2. it is passed on as it came, its body buffered, with the fleet's secret and `framehold-via: node`
    3. the owner answers: status, headers and stream go to the client as they come
    4. the client leaves: the connection to the owner is closed, which cancels the round there
"""

from __future__ import annotations

import asyncio
import logging
import math
from enum import Enum
from typing import Any

import aiohttp
from starlette.types import Receive, Scope, Send
from yarl import URL

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import Boot, CallId, NodeId
from framehold_router.internal import NODE, NOT_HELD, ROUTE, VIA, Trust, end_to_end, without_internal
from framehold_router.membership import Membership, address_of
from framehold_router.placement import fresh_call
from framehold_store.base import Store

from . import clock
from .exchange import PING
from .hop import Hop

logger = logging.getLogger(__name__)

TRIES = 3
"""How often a call's owner is looked for that turns out not to hold it, or breaks off."""
PATIENCE = 20.0
"""Seconds at most for which the lease of an owner that is out of reach is waited out."""
CONNECT = 1.0
"""Seconds until a node that doesn't accept a connection counts as out of reach."""
_DRAWS = 256
"""How many ids are drawn for one that the ring maps to this node; beyond it any will do, at the price of a relay."""
_LONGEST = 64 * 1024
"""The longest line of a response's head, as routers have it."""
_LOOK = 0.2
"""Seconds between two looks at the leases for those who wait until one of them has run out."""
_REMINDED = 5.0
"""Seconds between two lines of the log about one address that is out of reach: each call there is tried often."""
_OF_SERVERS = (b"date", b"server")
"""What the server of this node puts on every response by itself."""
_AUTOMATIC = ("accept", "accept-encoding", "user-agent", "content-type")


class Passed(Enum):
    """What came of passing a request on."""

    ANSWERED = "its response went to the client"
    NOT_HELD = "that node does not hold the call"
    UNREACHED = "nothing was sent: it accepts no connection"
    BROKEN = "it was sent, and no response came"


class Search:
    """How long a call's owner is looked for: one that is out of reach until its lease must have run out, since then
    another may claim the call (or say that it is lost); one that answers wrongly, a few times."""

    def __init__(self, lease_ttl: float) -> None:
        self.pause = 0.0
        """Seconds to wait before the store is read again."""
        self._until = clock.now() + min(lease_ttl + 1.0, PATIENCE)
        self._tries = 0

    def goes_on(self, passed: Passed) -> bool:
        """Whether to look again after that."""
        self.pause = min(0.5, self.pause + 0.05)
        if passed is Passed.UNREACHED:
            return clock.now() < self._until
        self._tries += 1
        return self._tries < TRIES


class Peers:
    """The fleet as one node sees it. `membership` is None for a process that shares no store: it has no peers."""

    def __init__(self, node: str, trust: Trust, store: Store | None) -> None:
        self.trust = trust
        self._node = NodeId(node)
        self._membership = None if store is None else Membership(store)
        self._http: aiohttp.ClientSession | None = None
        self._following: asyncio.Task[None] | None = None
        self._told: dict[str, float] = {}
        self._looked = -math.inf

    async def close(self) -> None:
        """Let go of connections; requests that are being passed on are cut off."""
        if self._membership is not None and self._following is not None:
            await asyncio.wait((self._following,))
            await self._membership.close()
            self._following = None
        if self._http is not None:
            await self._http.close()
            self._http = None

    def mint(self) -> CallId:
        """A fresh call id that the ring maps to this node, where it is on the ring.

        The first one has the membership followed from then on: a node behind routers needs none of it."""
        call = fresh_call()
        if self._membership is None:
            return call
        if self._following is None:
            self._following = asyncio.create_task(self._membership.open(), name="framehold peers")
        ring = self._membership.fleet.ring
        if self._node not in ring.nodes:
            return call
        owner = ring.owner
        for _ in range(_DRAWS):
            if owner(call) == self._node:
                break
            call = fresh_call()
        return call

    async def address(self, node: NodeId, boot: Boot) -> str | None:
        """Where this life of a node's process is reached; None where it is gone.

        Raises:
            StoreUnavailable: it is not in the last view, and the store doesn't answer: nobody knows.
        """
        if self._membership is None:
            return None
        member = self._membership.fleet.members.get(node)
        if member is None or member.boot != boot:
            await self._membership.refresh()
            member = self._membership.fleet.members.get(node)
        if member is not None and member.boot == boot:
            return member.url
        if self._membership.stale:
            raise StoreUnavailable("the node leases can't be read: whether that process lives is not known")
        return None

    async def named(self, address: str) -> bool:
        """Whether a node's lease still names this address. All who wait for a lease to run out share a look."""
        if self._membership is None:
            return False
        if clock.now() - self._looked > _LOOK:
            self._looked = clock.now()
            await self._membership.refresh()
        return any(member.url == address for member in self._membership.fleet.members.values())

    async def pass_on(self, address: str, request: tuple[Scope, bytes], receive: Receive, send: Send) -> Passed:
        """Send a request (its scope and its whole body) to the node at `address`, and its response to the client."""
        hop: Hop = request[0]["framehold"]
        passing = asyncio.ensure_future(self._pass(address, request, hop, send))
        leaving = asyncio.ensure_future(_leave(receive))
        try:
            await asyncio.wait((passing, leaving), return_when=asyncio.FIRST_COMPLETED)
            # A client that left needs no response: there is nothing to try again.
            return passing.result() if passing.done() else Passed.ANSWERED
        finally:
            passing.cancel()
            leaving.cancel()

    async def _pass(self, address: str, request: tuple[Scope, bytes], hop: Hop, send: Send) -> Passed:
        if address_of(address) is None:
            self._warn(address, "it is no http://host:port (FRAMEHOLD_ADVERTISE_URL of that node)")
            return Passed.UNREACHED
        begun = False
        try:
            async with self._asked(address, *request) as response:
                if NOT_HELD.decode() in response.headers:
                    return Passed.NOT_HELD
                begun = True
                await _stream(response, hop, send)
                return Passed.ANSWERED
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
            # Its name alone: errors of aiohttp show URL and headers of the request, the fleet's secret among them.
            self._warn(address, type(error).__name__)
            return Passed.UNREACHED
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            logger.warning("a node at %s broke off: %s", address, type(error).__name__)
            if begun:
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
        headers = [*end_to_end(scope["headers"]), self.trust.header, (VIA, b"node")]
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
        logger.warning("a node at %.200r is out of reach: %s", address, why)


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


async def left(receive: Receive, within: float) -> bool:
    """Whether the client leaves within so many seconds."""
    try:
        await asyncio.wait_for(_leave(receive), within)
    except TimeoutError:
        return False
    return True


async def _leave(receive: Receive) -> None:
    """Returns when the client has left."""
    while True:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            return


def _target(scope: Scope) -> str:
    query = scope.get("query_string", b"").decode("latin-1")
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    return f"{path}?{query}" if query else path
