"""What outlives a process: leases, journals and the registry of nodes."""

from __future__ import annotations

from collections.abc import Callable

from framehold_core.errors import ConfigError

from .base import Done, Store
from .config import StoreConfig

__all__ = ["Done", "Store", "StoreConfig", "open_store"]


def open_store(config: StoreConfig, clock: Callable[[], float]) -> Store:
    """Build the store that `config` names; it is not opened yet. `clock` gives seconds since 1970 and never
    goes back. Only the store in memory uses it: the other stores use the clock of Redis.

    Raises:
        ConfigError: the URL can't be used, or names a store that is not installed.
    """
    if config.scheme == "memory":
        from .memory import MemoryStore

        return MemoryStore(clock, poll=config.poll)
    if config.scheme == "embedded":
        try:
            from .embedded import EmbeddedStore
        except ImportError as error:
            raise ConfigError(
                f"embedded:// needs fakeredis, which is not here ({error}): images leave it out; nothing was opened; "
                "name a Redis, or install fakeredis[lua]"
            ) from None
        return EmbeddedStore(config)
    from .redis import RedisStore

    return RedisStore(config)
