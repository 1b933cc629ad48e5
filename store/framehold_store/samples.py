"""The history of a fleet in Redis: one sample of figures for each slot of time, for operators.

The law: no decision about a call needs any of it. Several routers may take the sample of one slot: the first one stays.
Each sample is a key with a TTL (`Keys.sample`), so nothing has to be trimmed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from redis.exceptions import ResponseError

from . import codec
from .event_log import refused
from .keys import MAX_SAMPLE, Keys
from .registry import Command, Strings

_log = logging.getLogger(__name__)
READ = 100
"""Samples of one command at most: a longer one would hold up rounds."""


class Samples:
    """The samples of one namespace. `command` and `strings` send to the store."""

    def __init__(self, keys: Keys, command: Command, strings: Strings) -> None:
        self._keys, self._command, self._strings = keys, command, strings
        self._reported: set[str] = set()

    async def keep(self, step: int, slot: int, sample: bytes, ttl: float) -> None:
        key = self._keys.sample(step, slot)
        raw = await self._command(key, "SET", key, sample, "NX", "PX", codec.milliseconds(ttl))
        if isinstance(raw, ResponseError):
            raise refused(f"the store refused a sample ({raw}); it was not kept; look at the store's own log", raw)

    async def read(self, step: int, slots: Sequence[int]) -> tuple[bytes | None, ...]:
        found: list[bytes | None] = []
        for start in range(0, len(slots), READ):
            keys = [self._keys.sample(step, slot) for slot in slots[start : start + READ]]
            values, _ = await self._strings(keys, MAX_SAMPLE)
            found += [None if isinstance(value, int) else value for value in values]
            self._report({key for key, value in zip(keys, values, strict=True) if isinstance(value, int)})
        return tuple(found)

    def _report(self, garbage: set[str]) -> None:
        """Log the samples that are none, each once."""
        for key in sorted(garbage - self._reported):
            _log.warning("the history at %s has no sample; it is passed over; check who else writes there", key)
        self._reported = garbage
