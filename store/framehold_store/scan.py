"""A walk over all records of a namespace in bounded steps: one SCAN, then a few fields of each record that it found.

A cursor holds the name of a server and the SCAN cursor there: `host:port 1234`. With one server the name is empty.
Servers are scanned in the order of their names. If a slot moves to a server that was scanned before, this walk misses
the records of the slot; the next walk finds them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from redis.exceptions import ResponseError

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import CallId
from framehold_core.requests import RecordState

from .base import ScanStep, Summary
from .batch import Item, pack
from .codec import VERSION, count, seconds
from .keys import MAX_KEY, MAX_SUMMARY, Keys
from .registry import Command
from .scripts import SCRIPTS
from .servers import Servers

_FIELDS = (
    *("v", "state", "owner", "inc", "boot", "epoch", "round", "attempts", "reentrant", "tool", "strategy"),
    *("created", "expires"),
)


async def scan(servers: Servers, command: Command, keys: Keys, cursor: str, count: int) -> ScanStep:
    """Do one step of a scan: read about `count` records from `cursor` on. `Store.scan` has the contract.

    Raises:
        StoreUnavailable: no answer came in time, or `cursor` is not one of this store's.
    """
    primaries = await servers.primaries()
    name, at = _position(primaries, cursor)
    if name is None:
        return ScanStep("", (), 0)
    after, records, unreadable = await _record_keys(servers, name, at, keys.records, count)
    at_once = max(1, len(records)) if servers.accepts_multi_key_commands else 1
    portions = [records[start : start + at_once] for start in range(0, len(records), at_once)]
    answers = await asyncio.gather(*(_rows(command, some) for some in portions))
    rows = [row for answer in answers for row in answer]
    found = []
    for record, row in zip(records, rows, strict=True):
        try:
            summary = _read(keys.call_of(record), row)
        except ValueError:
            unreadable += 1
        else:
            found += [summary] if summary else []
    return ScanStep(_next(primaries, name, after), tuple(found), unreadable)


async def _rows(command: Command, records: Sequence[str]) -> Sequence[Any]:
    """The fields of records that one server has in one slot; a number in place of what is no record or is too large."""
    asked = ("EVALSHA", SCRIPTS["summary"].sha, len(records), *records)
    raw = await command(records[0], *asked, MAX_SUMMARY, *_FIELDS)
    return [raw] * len(records) if isinstance(raw, ResponseError) else raw


def _position(primaries: Sequence[str], cursor: str) -> tuple[str | None, str]:
    """The server to scan and the SCAN cursor there. A server that has left the cluster is skipped; None if no server
    is left."""
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


async def _record_keys(servers: Servers, name: str, at: str, pattern: str, count: int) -> tuple[str, list[str], int]:
    """The next SCAN cursor of a server, the keys of records that one SCAN found there, and how many of them are too
    long for the key of a record."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    packed = pack(("EVALSHA", SCRIPTS["keys"].sha, 0, at, pattern, count, MAX_KEY))
    servers.submit_to(
        name, Item(packed, f"scan {name}", "scan", lambda raw: None if future.done() else future.set_result(raw))
    )
    raw = await future
    if isinstance(raw, StoreUnavailable):
        raise raw
    if isinstance(raw, ResponseError):
        raise StoreUnavailable(f"the store refused to scan ({raw}); nothing was looked at; look at the store's own log")
    after, records, left_out = raw
    return after.decode(), [record.decode("utf-8", "replace") for record in records], left_out


def _read(call: CallId, row: Any) -> Summary | None:
    """The summary of a record from its fields; None if the record was deleted after the SCAN.

    Raises:
        ValueError: the record is corrupted or of a newer release.
    """
    if isinstance(row, ResponseError | int):
        raise ValueError(str(row))
    if not any(row):
        return None
    if row[0] != VERSION or None in row:
        raise ValueError("another format")
    state, owner, inc, boot, *counts, reentrant, tool, strategy, created, expires = (
        value.decode() for value in row[1:]
    )
    epoch, round_, attempts = map(count, counts)
    return Summary(
        *(call, RecordState(state), owner, inc, boot, epoch, round_, attempts, bool(int(reentrant)), tool, strategy),
        *(seconds(created), seconds(expires)),
    )
