"""What outlives a process: leases, journals and the registry of nodes."""

from __future__ import annotations

from .base import Clock, Done, Store
from .config import StoreConfig

__all__ = ["Clock", "Done", "Store", "StoreConfig", "open_store"]


def open_store(config: StoreConfig, clock: Clock) -> Store:
    """Build the store that `config` names; it is not opened yet. `clock` gives seconds and never goes back. Only the
    store in memory uses it: the other stores use the clock of Redis.

    Raises:
        ConfigError: the URL can't be used.
    """
    if config.scheme == "memory":
        from .memory import MemoryStore

        return MemoryStore(clock, poll=config.poll)
    if config.scheme == "embedded":
        from .embedded import EmbeddedStore

        return EmbeddedStore(config)
    from .redis import RedisStore

    return RedisStore(config)
