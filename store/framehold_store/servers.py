"""Which server holds a key: the seam between the store, which knows scripts, and one or several Redis servers.

One server (by its address, its socket, or as the master that sentinels name) has one lane for everything. cluster.py
has a lane for each primary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from redis.asyncio import ConnectionPool

from .batch import Item, Lane
from .config import StoreConfig
from .link import Link


class Servers(Protocol):
    """Every item is settled once, about in time; items of one key are applied in the order of their submission."""

    @property
    def together(self) -> bool:
        """Whether one command may name keys of several slots."""

    @property
    def submit(self) -> Callable[[Item], None]:
        """Send an item to the server that holds its key."""

    def pool(self) -> ConnectionPool:
        """Connections to a server that hears what is published to any of them. Ask again when it is lost."""

    async def primaries(self) -> Sequence[str]:
        """The names of the servers that hold keys, in order; each key is at one of them.

        Raises:
            StoreUnavailable: a cluster that doesn't say.
        """

    def submit_to(self, primary: str, item: Item) -> None:
        """Send an item to one of `primaries`, whatever its key."""

    async def close(self) -> None:
        """Settle what is left, let go of the connections. Idempotent."""


class OneServer:
    """All keys are where `pool` leads."""

    together = True

    def __init__(self, pool: ConnectionPool, config: StoreConfig) -> None:
        self._pool = pool
        self._lane = Lane(Link(pool, config.target, config), config.op_timeout, config.max_queue)
        self.submit = self._lane.submit

    def pool(self) -> ConnectionPool:
        return self._pool

    async def primaries(self) -> Sequence[str]:
        return ("",)

    def submit_to(self, primary: str, item: Item) -> None:
        self._lane.submit(item)

    async def close(self) -> None:
        await self._lane.close()
        await self._pool.aclose()
