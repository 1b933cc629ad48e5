"""The event log and the ended calls of a fleet in Redis, and what its servers say of their memory and
disk: what operators look at.

The law: no decision about a call needs any of it. Each is a stream, bounded by number and by age; `append.lua` keeps
the bounds. An entry may be there twice, since an append whose reply was lost is sent again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from redis.exceptions import RedisError

from framehold_core.errors import StoreFull, StoreRefused, StoreUnavailable

from .base import MAX_EVENT_AGE, MAX_EVENTS, MemoryUse, StoredEvent, StreamName
from .batch import Item, pack
from .keys import MAX_EVENT, REPLACED, Keys
from .link import answer_of
from .servers import Servers

_log = logging.getLogger(__name__)

Script = Callable[..., Awaitable[Any]]
"""(name of the script, key, arguments) -> raw reply; raises StoreUnavailable."""

_BYTES = 256 * 1024
"""Bytes of entries that one script adds at most: a longer one would hold up rounds."""


class EventLog:
    """The streams of one namespace. `script` sends to the store."""

    def __init__(self, keys: Keys, script: Script) -> None:
        self._script = script
        self._keys: dict[StreamName, str] = {
            "log": keys.log,
            "ended": keys.ended,
            "failed": keys.failed,
            "routers": keys.routers,
        }

    async def append(self, entries: Sequence[bytes], to: StreamName) -> None:
        portion: list[bytes] = []
        for entry in entries:
            if portion and sum(map(len, portion)) + len(entry) > _BYTES:
                await self._append(portion, to)
                portion = []
            portion.append(entry)
        if portion:
            await self._append(portion, to)

    async def _append(self, entries: Sequence[bytes], to: StreamName) -> None:
        key = self._keys[to]
        if not await self._script("append", key, MAX_EVENTS, round(MAX_EVENT_AGE[to] * 1000), *entries):
            _log.warning(REPLACED, key)

    async def read(self, after: str, count: int, of: StreamName) -> tuple[StoredEvent, ...]:
        start = f"({after}" if after else "-"
        # An entry with other fields, or a larger one, was written by somebody else; its reader skips an empty one.
        raw = await self._script("events", self._keys[of], start, count, MAX_EVENT)
        return tuple(StoredEvent(place.decode(), entry) for place, entry in raw)


async def memory(servers: Servers) -> MemoryUse | None:
    """How much memory the fullest server uses, and its limit; None if no server has a limit, or says so.

    Raises:
        StoreUnavailable: no answer came in time.
    """
    found = [use for name in await servers.primaries() if (use := await _memory_of(servers, name)) is not None]
    return max(found, key=lambda use: use.used / use.limit, default=None)


async def unsaved(servers: Servers) -> str:
    """What says that a server did not save to its disk, as `unsaved_of`; empty if none says so.

    Raises:
        StoreUnavailable: no answer came in time.
    """
    found = [unsaved_of(await _info(servers, name, "persistence")) for name in await servers.primaries()]
    return next(filter(None, found), "")


def unsaved_of(info: Mapping[str, Any]) -> str:
    """The field of INFO by which the last save to disk failed, of the file that a start reads; else empty."""
    field = "aof_last_write_status" if str(info.get("aof_enabled")) == "1" else "rdb_last_bgsave_status"
    return "" if info.get(field, "ok") == "ok" else f"{field}:err"


async def _memory_of(servers: Servers, name: str) -> MemoryUse | None:
    fields = await _info(servers, name, "memory")
    used, limit = fields.get("used_memory", ""), fields.get("maxmemory", "")
    return MemoryUse(int(used), int(limit)) if used.isdigit() and limit.isdigit() and int(limit) else None


async def _info(servers: Servers, name: str, section: str) -> dict[str, str]:
    """A section of a server's INFO; empty if the user may not run it."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    packed = pack(("INFO", section))
    servers.submit_to(
        name, Item(packed, f"info {name}", "info", lambda raw: None if future.done() else future.set_result(raw))
    )
    raw = await future
    if isinstance(raw, StoreUnavailable):
        raise raw
    if not isinstance(raw, bytes | str):
        # The user may not run INFO, or the server doesn't know it.
        return {}
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def refused(what: str, error: RedisError) -> StoreUnavailable:
    """The error for a caller whose request the server refused. `what` says what was refused and what follows."""
    # An error inside a script has its code in the middle of the text in Redis 6.2.
    if "OOM command not allowed" in str(error) or "used memory >" in str(error):
        return StoreFull(what)
    return StoreRefused(what, answer_of(error))
