"""Which server holds a key: the interface between the store, which knows scripts, and one or several Redis servers.

`OneServer` (a server by its address or socket, or the master that sentinels name) has one lane for all keys. The
cluster of cluster.py has one lane for each primary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from redis.asyncio import ConnectionPool

from .batch import BatchLane, Item
from .config import StoreConfig
from .link import StoreLink
from .pipe import Open, TransportPipe


class Servers(Protocol):
    """The servers of a store. Every item is settled once, at about its deadline at the latest; items of one key are
    applied in the order of their submission."""

    @property
    def accepts_multi_key_commands(self) -> bool:
        """Whether one command may name keys of several slots."""

    @property
    def submit(self) -> Callable[[Item], None]:
        """Send an item to the server that holds its key."""

    def pool(self) -> ConnectionPool:
        """Connections to a server where messages published at any of the servers can be received. After a loss call
        this again: it may name another server."""

    async def primaries(self) -> Sequence[str]:
        """The names of the servers that hold keys, sorted; each key is at one of them.

        Raises:
            StoreUnavailable: no server of the cluster gave the slot map in time.
        """

    def submit_to(self, primary: str, item: Item) -> None:
        """Send an item to one of `primaries`, whatever its key."""

    async def close(self) -> None:
        """Settle all items that are left, and close the connections. Idempotent."""


class OneServer:
    """`Servers` of one Redis, which `pool` connects to."""

    accepts_multi_key_commands = True

    def __init__(self, pool: ConnectionPool, config: StoreConfig, open_pipe: Open = TransportPipe) -> None:
        self._pool = pool
        link = StoreLink(pool, config.target, config, open_pipe=open_pipe)
        self._lane = BatchLane(link, config.op_timeout, config.max_queue)
        self.submit = self._lane.submit

    def pool(self) -> ConnectionPool:
        return self._pool

    async def primaries(self) -> Sequence[str]:
        return ("",)

    def submit_to(self, primary: str, item: Item) -> None:
        self._lane.submit(item)

    async def close(self) -> None:
        try:
            await self._lane.close()
        finally:
            await self._pool.aclose()
