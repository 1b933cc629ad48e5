"""What outlives a process: leases, journals and the registry of nodes."""

from __future__ import annotations

from .base import Clock, Done, Store
from .config import StoreConfig

__all__ = ["Clock", "Done", "Store", "StoreConfig", "open_store"]


def open_store(config: StoreConfig, clock: Clock) -> Store:
    """The store that `config` names, not yet opened. `clock` (seconds, never going back) is the clock of the store in
    memory; the others use Redis' own.

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
