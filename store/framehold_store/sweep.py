"""A bounded look over all records of a namespace, one step at a time: SCAN, and a few fields of what it finds.

The cursor names the server and its own cursor there, `host:port 1234`; a store of one server names none. Servers are
walked in the order of their names. A slot that moves to a server which was walked already is for the next walk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.exceptions import ResponseError

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import CallId
from framehold_core.requests import RecordState

from .base import Summary, Swept
from .batch import Item, pack
from .codec import VERSION
from .keys import Keys
from .servers import Servers

_FIELDS = (
    *("v", "state", "owner", "inc", "boot", "epoch", "round", "attempts", "reentrant", "tool", "strategy"),
    *("created", "expires"),
)
Command = Callable[..., Awaitable[Any]]
"""(key, command and arguments) -> raw reply or ResponseError; raises StoreUnavailable."""


async def sweep(servers: Servers, command: Command, keys: Keys, cursor: str, count: int) -> Swept:
    """One step; see `Store.sweep`."""
    primaries = await servers.primaries()
    name, at = _where(primaries, cursor)
    if name is None:
        return Swept("", (), 0)
    after, records = await _scan(servers, name, at, keys.records, count)
    rows = await asyncio.gather(*(command(record, "HMGET", record, *_FIELDS) for record in records))
    found, unreadable = [], 0
    for record, row in zip(records, rows, strict=True):
        try:
            summary = _read(keys.call_of(record), row)
        except ValueError:
            unreadable += 1
        else:
            found += [summary] if summary else []
    return Swept(_next(primaries, name, after), tuple(found), unreadable)


def _where(primaries: Sequence[str], cursor: str) -> tuple[str | None, str]:
    """The server to ask and its cursor. A server that is gone is passed over."""
    name, _, at = cursor.rpartition(" ")
    if not cursor:
        return primaries[0], "0"
    if name in primaries:
        return name, at
    return next((other for other in primaries if other > name), None), "0"


def _next(primaries: Sequence[str], name: str, after: str) -> str:
    if after == "0":
        later = [other for other in primaries if other > name]
        return f"{later[0]} 0" if later else ""
    return f"{name} {after}"


async def _scan(servers: Servers, name: str, at: str, pattern: str, count: int) -> tuple[str, list[str]]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    packed = pack(("SCAN", at, "MATCH", pattern, "COUNT", count))
    servers.submit_to(
        name, Item(packed, f"scan {name}", "scan", lambda raw: None if future.done() else future.set_result(raw))
    )
    raw = await future
    if isinstance(raw, StoreUnavailable):
        raise raw
    if isinstance(raw, ResponseError):
        raise StoreUnavailable(f"the store refused to scan ({raw}); nothing was looked at; look at the store's own log")
    after, records = raw
    return after.decode(), [record.decode("utf-8", "replace") for record in records]


def _read(call: CallId, row: Any) -> Summary | None:
    """None for a record that has ended meanwhile."""
    if isinstance(row, ResponseError):
        raise ValueError(str(row))
    if not any(row):
        return None
    if row[0] != VERSION or None in row:
        raise ValueError("another format")
    state, owner, inc, boot, *rest, tool, strategy, created, expires = (value.decode() for value in row[1:])
    epoch, round_, attempts, reentrant = map(int, rest)
    return Summary(
        *(call, RecordState(state), owner, inc, boot, epoch, round_, attempts, bool(reentrant), tool, strategy),
        *(int(created) / 1000, int(expires) / 1000),
    )
