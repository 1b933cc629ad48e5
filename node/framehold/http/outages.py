"""Nodes that are out of reach. All requests that wait for one node share one watch of it (docs/protocol.md, rule 19).

    1. a request finds that a node accepts no connection: a watch of its address begins
    2. the watch reads the leases, and tries to connect, a few times a second, however many requests wait
    3. other requests for that address join the watch meanwhile, and don't try to connect themselves
    4. no lease names the address any more, or it accepts connections again: the waiting requests read the record again

The law: the cost of waiting grows with the number of nodes that are out of reach, not with the calls that they held.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial

from starlette.types import Receive

from framehold_store import system_clock

from .body import gone

logger = logging.getLogger(__name__)

PATIENCE = 20.0
"""Seconds at most for which a node that is out of reach is waited for."""
TRIES = 4
"""How many times one request looks for the owner of its call. A try fails where the node does not hold the call, breaks
off, or is out of reach."""
_LOOK = 0.1
"""Seconds between two looks."""

Check = Callable[[str], Awaitable[bool]]
"""A question about an address."""


class WaitResult(Enum):
    """The result of waiting for a node."""

    OVER = "the lease ran out, or the node is back"
    LATE = "it took too long"
    LEFT = "the client did not wait for it"


class OwnerSearch:
    """How long and how often one request looks for the owner of its call.

    A request waits for a node that is out of reach until the node's lease must have run out: then another node may
    claim the call, or reply that it is lost. In all, a request makes `TRIES` tries at most."""

    def __init__(self, lease_ttl: float) -> None:
        self.deadline = system_clock.now() + min(lease_ttl + 1.0, PATIENCE)
        """Until when a node that is out of reach is waited for, in seconds on the node's clock."""
        self._tries = 0

    @property
    def pause(self) -> float:
        """Seconds to wait before the store is read again."""
        return 0.05 * self._tries

    def may_go_on(self) -> bool:
        """Count a failed try. Returns whether the request may try again."""
        self._tries += 1
        return self._tries < TRIES


class Outages:
    """The watches of one node. `has_lease` checks whether a lease names an address, `reaches` whether the node
    that it names answers there."""

    def __init__(self, has_lease: Check, reaches: Check) -> None:
        self._has_lease, self._reaches = has_lease, reaches
        self._watches: dict[str, asyncio.Task[None]] = {}

    def is_watched(self, address: str) -> bool:
        """Whether this address is watched: then no request needs to try it."""
        return address in self._watches

    async def wait(self, address: str, receive: Receive, deadline: float) -> WaitResult:
        """Wait until the outage of `address` is over, at most until `deadline` (seconds on the node's clock)."""
        watch = self._watches.get(address)
        if watch is None:
            # All requests that wait share it: it takes over nothing of the first one.
            watching, empty = self._watch(address), contextvars.Context()
            watch = asyncio.create_task(watching, name="framehold outage", context=empty)
            self._watches[address] = watch
            watch.add_done_callback(partial(self._ended, address))
        leaving = asyncio.ensure_future(gone(receive))
        try:
            left = max(0.0, deadline - system_clock.now())
            await asyncio.wait((watch, leaving), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                return WaitResult.LEFT
            return WaitResult.OVER if watch.done() else WaitResult.LATE
        finally:
            leaving.cancel()

    async def close(self) -> None:
        """End all watches."""
        watches = tuple(self._watches.values())
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)

    def _ended(self, address: str, watch: asyncio.Task[None]) -> None:
        self._watches.pop(address, None)
        if not watch.cancelled() and (error := watch.exception()) is not None and not isinstance(error, TimeoutError):
            text = "a bug in watching a node that is out of reach: the records of its calls are read again: %r"
            logger.error(text, error)

    async def _watch(self, address: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while await self._has_lease(address):
                if await self._reaches(address):
                    return
                await asyncio.sleep(_LOOK)
