"""Nodes that are out of reach: all who wait for one share a watch of it (PROTOCOL rule 19).

    1. a request finds that a node accepts no connection: a watch of its address begins
    2. the watch looks at the leases, and tries to connect, a few times a second, however many wait for it
    3. no lease names the address any more, or it accepts connections again: whoever waits reads the record again
    4. meanwhile other requests for that address join the watch, and don't try by themselves

The law: what waiting costs grows with the nodes that are out of reach, not with the calls that they held.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial

from starlette.types import Receive

from . import clock
from .body import gone

logger = logging.getLogger(__name__)

PATIENCE = 20.0
"""Seconds at most for which a node that is out of reach is waited for."""
TRIES = 4
"""How often a call's owner is looked for that turns out not to hold it, breaks off, or is out of reach."""
_LOOK = 0.1
"""Seconds between two looks."""

Asked = Callable[[str], Awaitable[bool]]


class Waited(Enum):
    """What came of waiting."""

    OVER = "the lease ran out, or the node is back"
    LATE = "it took too long"
    LEFT = "the client did not wait for it"


class Search:
    """How long one request looks for its call's owner: one that is out of reach until its lease must have run out,
    since then another may claim the call (or say that it is lost); any other, a few times."""

    def __init__(self, lease_ttl: float) -> None:
        self.until = clock.now() + min(lease_ttl + 1.0, PATIENCE)
        """Seconds on the node's clock."""
        self._tries = 0

    @property
    def pause(self) -> float:
        """Seconds to wait before the store is read again."""
        return 0.05 * self._tries

    def fails(self) -> bool:
        """Count a search that was in vain; whether it was one too many."""
        self._tries += 1
        return self._tries >= TRIES


class Outages:
    """The watches of one node. `named` tells whether a lease names an address, `reached` whether it accepts a
    connection."""

    def __init__(self, named: Asked, reached: Asked) -> None:
        self._named, self._reached = named, reached
        self._watches: dict[str, asyncio.Task[None]] = {}

    def known(self, address: str) -> bool:
        """Whether this address is watched: nobody else needs to try it."""
        return address in self._watches

    async def over(self, address: str, receive: Receive, until: float) -> Waited:
        """Wait until the outage is over, at most until a time on the node's clock."""
        watch = self._watches.get(address)
        if watch is None:
            watch = self._watches[address] = asyncio.create_task(self._watch(address), name="framehold outage")
            watch.add_done_callback(partial(self._ended, address))
        leaving = asyncio.ensure_future(gone(receive))
        try:
            left = max(0.0, until - clock.now())
            await asyncio.wait((watch, leaving), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                return Waited.LEFT
            return Waited.OVER if watch.done() else Waited.LATE
        finally:
            leaving.cancel()

    async def close(self) -> None:
        """Watch no more."""
        watches = tuple(self._watches.values())
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)

    def _ended(self, address: str, watch: asyncio.Task[None]) -> None:
        self._watches.pop(address, None)
        if not watch.cancelled() and (error := watch.exception()) is not None and not isinstance(error, TimeoutError):
            told = "a bug in watching a node that is out of reach: the records of its calls are read again: %r"
            logger.error(told, error)

    async def _watch(self, address: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while await self._named(address):
                if await self._reached(address):
                    return
                await asyncio.sleep(_LOOK)
