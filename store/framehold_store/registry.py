"""Node leases in Redis: their stored form, the list of members, and the notices of changes.

The lease is the truth, the list of names is a hint. Each registration and renewal sends the name first and then the
script of the lease, in one batch. So a reader that gets the notice of the change finds the name on the list. Only the
script of the lease decides what becomes of it: in a cluster the list may be on a server that is down.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Any

from redis.asyncio import ConnectionPool

from framehold_core.errors import ProtocolError, StoreUnavailable
from framehold_core.ids import NodeId, is_node_id
from framehold_core.lease import MARGIN, LeaseReply, NodeRecord, Renewal, no_lease

from . import lease_codec
from .channels import follow
from .codec import milliseconds
from .feed import Feed
from .keys import FORGET_MS, MAX_LEASE, MAX_NAME, REPLACED, Keys

_log = logging.getLogger(__name__)

_RENEWALS = {renewal.value.encode(): renewal for renewal in Renewal}
_NAME = re.compile(r"[0-9A-Za-z_.:-]{1,64}")
_MAX_NODES = 10_000
_NEVER = 10**12
"""Milliseconds: longer than any lease."""
_LEASES_PER_COMMAND = 256
"""Leases that one script reads: with a thousand, Redis would serve nobody else for a millisecond."""
_UNLISTED = (
    "the list of nodes at %s can't be written (%s): the lease of this node is kept; meanwhile no call is taken over, "
    "and a node that joins may not be found"
)

Script = Callable[..., Awaitable[Any]]
"""(name of the script, key, arguments) -> raw reply; raises StoreUnavailable."""
Command = Callable[..., Awaitable[Any]]
"""(key, command and arguments) -> raw reply or ResponseError; raises StoreUnavailable."""
Strings = Callable[[Sequence[str], int], Awaitable[tuple[list[Any], int]]]
"""Reads what is stored at some keys (`RedisStore._strings`)."""


class Registry:
    """Node leases of one namespace. `script` and `strings` send to the store; `poll` is the pause of the change feed in
    seconds; `multi_key` says whether one command may name keys of several slots."""

    def __init__(self, keys: Keys, script: Script, strings: Strings, poll: float, multi_key: bool) -> None:
        self._keys = keys
        self._script = script
        self._strings = strings
        self._multi_key = multi_key
        self._garbage: dict[str, bytes] = {}
        self._reads: dict[frozenset[NodeId] | None, asyncio.Task[tuple[NodeRecord, ...]]] = {}
        """The reads of leases that are not sent yet, by the names that are read; None: of all nodes."""
        self._listings: set[asyncio.Task[Any]] = set()
        """The names that are on their way to the list."""
        self._unlisted = False
        """Whether the last name did not get there, and the log says so."""
        self._subscription: asyncio.Task[None] | None = None
        self.feed = Feed(poll, disconnected=True)

    async def register(self, node: NodeRecord, ttl: float, over: bytes) -> LeaseReply:
        return await self._put("register", node, ttl, over)

    async def renew(self, node: NodeRecord, acknowledged: int, ttl: float) -> LeaseReply:
        return await self._put("renew", node, ttl, acknowledged)

    async def unregister(self, node: NodeRecord) -> None:
        deleted = await self._script("leave", self._keys.node(node.node), *_names(node), self._keys.changes)
        if deleted:
            # From now on `count_nodes` leaves this name out: counted, it would hide another lease that has run out.
            with contextlib.suppress(StoreUnavailable):
                await self._script("member", self._keys.nodes, node.node, 0, _NEVER, FORGET_MS, _MAX_NODES)

    async def _put(self, name: str, node: NodeRecord, ttl: float, last: bytes | int) -> LeaseReply:
        life, (ends, *texts) = milliseconds(ttl), lease_codec.parts(node)
        times = (life, milliseconds(ttl * (1 + MARGIN)))
        value = (*_names(node), self._keys.changes, node.beat, ends, *texts, *times, last)
        key = self._keys.node(node.node)
        listing = asyncio.ensure_future(
            self._script("member", self._keys.nodes, node.node, ends, life, FORGET_MS, _MAX_NODES)
        )
        put = asyncio.ensure_future(self._script(name, key, *value))
        self._listings.add(listing)
        listing.add_done_callback(partial(self._listing_ended, put))
        raw = await put
        result, at, stored = _RENEWALS[raw[0]], raw[1] / 1000, bytes(raw[2]) if len(raw) > 2 else b""
        return LeaseReply(result, at, lease_codec.read(node.node, stored), stored)

    def _listing_ended(self, put: asyncio.Task[Any], listing: asyncio.Task[Any]) -> None:
        """Log what became of the name on the list. In a cluster another server may have the list, and its failure is
        none of the lease."""
        self._listings.discard(listing)
        if listing.cancelled():
            return
        error = listing.exception()
        if error is None:
            self._unlisted = False
            if not listing.result():
                _log.warning(REPLACED, self._keys.nodes)
        elif put.done():
            self._warn_unlisted(error, put)
        else:
            put.add_done_callback(partial(self._warn_unlisted, error))

    def _warn_unlisted(self, error: BaseException, put: asyncio.Task[Any]) -> None:
        """Log that the list is down and the lease kept. Where the lease is not, whoever put it hears why."""
        if put.cancelled() or put.exception() is not None or _RENEWALS[put.result()[0]] is not Renewal.RENEWED:
            return
        if not self._unlisted:
            self._unlisted = True
            _log.warning(_UNLISTED, self._keys.nodes, error)

    async def nodes(self, wanted: Collection[NodeId] | None = None) -> tuple[NodeRecord, ...]:
        """See `Store.nodes`. Those who ask in one turn of the loop share one read, and get the same object: a node that
        takes over ten thousand calls asks for each."""
        key = None if wanted is None else frozenset(wanted)
        reading = self._reads.get(key)
        # One whose event loop has ended never began.
        if reading is None or reading.done():
            reading = self._reads[key] = asyncio.create_task(self._read_next(key))
            # All who asked may have left.
            reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(reading)

    async def _read_next(self, key: frozenset[NodeId] | None) -> tuple[NodeRecord, ...]:
        """Read, in the turn after that in which it was asked for. Whoever asks from now on gets what is read later."""
        del self._reads[key]
        return await self._read(key)

    async def _read(self, wanted: Collection[NodeId] | None) -> tuple[NodeRecord, ...]:
        names = await self._listed() if wanted is None else sorted(wanted)
        named = [name for name in names if is_node_id(name)]
        garbage = {name: b"" for name in names if not is_node_id(name)}
        values = await self._values([self._keys.node(name) for name in named])
        found: list[NodeRecord] = []
        for name, (value, at) in zip(named, values, strict=True):
            if value is None:
                continue
            node = None if isinstance(value, int) else lease_codec.read(name, value)
            if node is None or node.expires * 1000 < at:
                garbage[name] = str(value).encode() if isinstance(value, int) else value
                node = no_lease(NodeId(name))
            found.append(node)
        if wanted is None:
            self._report(garbage)
        return tuple(found)

    async def _listed(self) -> list[str]:
        """The names on the list of members, sorted.

        Raises:
            StoreUnavailable: no answer came in time, or the key holds something else than the list.
        """
        raw = await self._script("members", self._keys.nodes, _MAX_NODES, MAX_NAME)
        return sorted(name.decode("utf-8", "replace") for name in raw)

    @property
    def unreadable(self) -> int:
        """How many entries the last read of all leases has skipped."""
        return len(self._garbage)

    async def count_nodes(self) -> int:
        return int(await self._script("alive", self._keys.nodes))

    async def _values(self, keys: list[str]) -> list[tuple[Any, int]]:
        """For each key its value, None if there is none, or a number if it is no lease (`Strings`); and the time, in
        milliseconds on the store's clock, at which it was read."""
        count = _LEASES_PER_COMMAND if self._multi_key else 1
        portions = [keys[start : start + count] for start in range(0, len(keys), count)]
        answers = await asyncio.gather(*(self._strings(some, MAX_LEASE) for some in portions))
        return [(value, at) for values, at in answers for value in values]

    def _report(self, garbage: dict[str, bytes]) -> None:
        """Log one line for each entry that can't be read; the next line follows only after the entry has changed."""
        for name, value in garbage.items():
            if self._garbage.get(name) != value:
                _log.warning(
                    "the node registry has an entry that is no lease, or one that has ended: %.80r; nothing is sent "
                    "there; check who else writes there",
                    name,
                )
        self._garbage = garbage

    def changes(self, pool: Callable[[], ConnectionPool], patience: float) -> AsyncIterator[frozenset[NodeId | None]]:
        """Subscribe on the first call, and yield as `Store.changes` says. `patience` is the operation time-out in
        seconds."""
        if self._subscription is None:
            following = follow(pool, self._keys.changes, self._on_message, patience, self._on_disconnect)
            self._subscription = asyncio.get_running_loop().create_task(following, name="framehold change feed")
        return self.feed.changes()

    def _on_message(self, lease_key: bytes | None) -> None:
        self.feed.disconnected = False
        try:
            # None: a subscription has begun. Notices before it were missed, so any lease may have changed.
            self.feed.notify(self._keys.node_of(lease_key.decode()) if lease_key is not None else None)
        except ValueError:
            self.feed.notify()

    def _on_disconnect(self) -> None:
        self.feed.disconnected = True

    async def close(self) -> None:
        self.feed.close()
        for listing in self._listings:
            listing.cancel()
        task, self._subscription = self._subscription, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))


def _names(node: NodeRecord) -> tuple[str, str]:
    """Incarnation and boot of a node.

    Raises:
        ProtocolError: one of them has a character that the scripts, which compare both between quotes, can't handle.
    """
    for name in (node.inc, node.boot):
        if _NAME.fullmatch(name) is None:
            raise ProtocolError(
                f"incarnation or boot {name[:80]!r} must be 1 to 64 letters, digits, '_', '.', ':' or '-'"
            )
    return node.inc, node.boot
