"""Which server holds a key: one Redis, or one of a cluster. The store, which knows scripts, stands above.

`OneServer` (a server by its address or socket, or the master that sentinels name) has one lane for all keys. The
cluster of cluster.py has one lane for each primary.
"""

from __future__ import annotations

from collections.abc import Sequence

from redis.asyncio import ConnectionPool

from .batch import BatchLane, Item
from .cluster import Cluster
from .config import StoreConfig
from .link import StoreLink
from .pipe import Open, TransportPipe


class OneServer:
    """One Redis, which `pool` connects to. `submit` sends an item to it."""

    accepts_multi_key_commands = True

    def __init__(self, pool: ConnectionPool, config: StoreConfig, open_pipe: Open = TransportPipe) -> None:
        self._pool = pool
        link = StoreLink(pool, config.target, config, open_pipe=open_pipe)
        self._lane = BatchLane(link, config.op_timeout, config.max_queue)
        self.submit = self._lane.submit

    def pool(self) -> ConnectionPool:
        """Connections to the server. After a loss call this again, as with a cluster."""
        return self._pool

    async def primaries(self) -> Sequence[str]:
        """One name for the one server."""
        return ("",)

    def submit_to(self, primary: str, item: Item) -> None:
        """Send an item to the server."""
        self._lane.submit(item)

    async def close(self) -> None:
        """Settle all items that are left, and close the connections. Idempotent."""
        try:
            await self._lane.close()
        finally:
            await self._pool.aclose()


Servers = OneServer | Cluster
"""The servers of a store. Every item is settled once, at about its deadline at the latest; items of one key are applied
in the order of their submission. `accepts_multi_key_commands`: whether one command may name keys of several slots."""
