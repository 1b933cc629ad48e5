"""The history of a fleet in Redis: one sample of figures for each slot of time, for operators.

The law: no decision about a call needs any of it. Several routers may take the sample of one slot: the first one stays.
Each sample is a key with a TTL (`Keys.sample`), so nothing has to be trimmed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.exceptions import ResponseError

from framehold_core.errors import StoreUnavailable

from . import codec
from .event_log import refused
from .keys import Keys

Command = Callable[..., Awaitable[Any]]
"""(key, command and arguments) -> raw reply or ResponseError; raises StoreUnavailable."""
READ = 100
"""Samples of one command at most: a longer one would hold up rounds."""


class Samples:
    """The samples of one namespace. `command` sends to the store."""

    def __init__(self, keys: Keys, command: Command) -> None:
        self._keys, self._command = keys, command

    async def keep(self, step: int, slot: int, sample: bytes, ttl: float) -> None:
        key = self._keys.sample(step, slot)
        raw = await self._command(key, "SET", key, sample, "NX", "PX", codec.milliseconds(ttl))
        if isinstance(raw, ResponseError):
            raise refused(f"the store refused a sample ({raw}); it was not kept; look at the store's own log", raw)

    async def read(self, step: int, slots: Sequence[int]) -> tuple[bytes | None, ...]:
        found: list[bytes | None] = []
        for start in range(0, len(slots), READ):
            keys = [self._keys.sample(step, slot) for slot in slots[start : start + READ]]
            raw = await self._command(keys[0], "MGET", *keys)
            if isinstance(raw, ResponseError):
                raise StoreUnavailable(f"the history at {keys[0]} can't be read ({raw}); check who else writes there")
            found += raw
        return tuple(found)
