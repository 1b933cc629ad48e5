"""Who is in the fleet: an immutable view of the node leases, which follows the store.

The law: a view is whole, and never older than the one before it. While the store is down the last view stays: a node
that is gone costs a connection attempt, an empty view would refuse everything. So it is for `BACK` seconds after:
leases ran out meanwhile that nobody could renew, and the nodes register anew one by one. A view never waits for a
reader: whoever must know more than the last one asks for a `refresh`.

The store tells of a change, but not of a lease that runs out. So whoever needs only to know who is there reads those
that it is told of, counts all at each poll, and reads all when their number is not that of the view, or every so many
polls whatever the number. A fleet in which each of N processes reads N leases at each poll and change would be busy
with itself alone.

    1. A asks for a refresh; its read begins
    2. B asks: what A's read sees may be older than B's question, so B waits for the next read
    3. C asks; it shares B's read, which has not begun
    4. A's read ends, one read for B and C begins
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_core.lease import NodeRecord
from framehold_store.base import Store

from .internal import Trust
from .message import Address
from .ring import Change, Ring
from .stats import Stats, read

_log = logging.getLogger(__name__)

LIVE = "live"
DRAINING = "draining"
STRANGE = "other keys"
"""A node that has none of this fleet's keys, or a lease that somebody else wrote: it can open no token of ours, and
must not see one."""

BACK = 5.0
"""Seconds after the store's return for which a node without a lease stays in the view: what nodes take to come back."""

_URL = re.compile(r"http://(?:\[([0-9A-Fa-f:.]+)\]|([0-9A-Za-z._-]+))(?::([0-9]{1,5}))?/?")
_HOST = re.compile(r"[0-9A-Za-z_-]{1,63}(?:\.[0-9A-Za-z_-]{1,63})*\.?")


def address_of(url: str) -> Address | None:
    """Where a lease's `http://host:port` is reached, an IPv6 host in brackets; None for anything else."""
    parts = _URL.fullmatch(url)
    if parts is None:
        return None
    bracketed, host, port = parts.groups("")
    if bracketed:
        try:
            ipaddress.IPv6Address(bracketed)
        except ValueError:
            return None
    elif not _HOST.fullmatch(host):
        return None
    number = int(port or 80)
    return (bracketed or host, number) if 0 < number < 65536 else None


class Member(NamedTuple):
    """One node, as its lease says. `address` is None where nothing may be sent to it."""

    node: NodeId
    inc: Incarnation
    boot: Boot
    state: str
    url: str
    address: Address | None
    stats: Stats

    @classmethod
    def of(cls, lease: NodeRecord, trust: Trust) -> Member:
        """What a lease says to a fleet with these keys. Where it doesn't show that it was written with one of them,
        nothing is sent there: what is sent are tokens, answers and the fleet's secret."""
        address, state, stats = address_of(lease.address), lease.state, read(lease.stats)
        if not trust.sealed(stats.seal or "", lease.node, lease.boot, lease.address):
            address, state = None, STRANGE
        return cls(lease.node, lease.inc, lease.boot, state, lease.address, address, stats)


class Fleet(NamedTuple):
    """All members by name, and the ring of those that take new calls."""

    members: Mapping[NodeId, Member]
    ring: Ring

    @classmethod
    def of(cls, members: Iterable[Member], before: Ring | None = None) -> Fleet:
        """The view of these members. `before` is used again where it has the same nodes, and followed where not: to lay
        out a ring at once takes half a millisecond a node."""
        by_name = {member.node: member for member in sorted(members, key=lambda member: member.node)}
        names = frozenset(
            name for name, member in by_name.items() if member.state == LIVE and member.address is not None
        )
        ring = before if before is not None and before.nodes == names else Ring(names, before=before)
        return cls(MappingProxyType(by_name), ring)


class Membership:
    """Follows the node leases of a store, which somebody else opens and closes. Without keys in `trust` all nodes are
    the fleet's. Of its polls every `every`th reads all leases, the others count them; where that is each, it reads all
    of them at a change, too. Belongs to one event loop."""

    def __init__(self, store: Store, trust: Trust, every: int = 1) -> None:
        self._trust = trust
        self._every, self._polls = every, 0
        self.fleet = Fleet.of(())
        """The newest view."""
        self.on_looked: Callable[[Mapping[NodeId, Member], Iterable[NodeRecord]], None] = lambda members, leases: None
        """Told of each look that the store answered: the members, and the leases that it found."""
        self.change: Change | None = None
        """The last change of the ring; None while it is the one that was found first."""
        self.changes = 0
        """How often it has changed."""
        self._store = store
        self._task: asyncio.Task[None] | None = None
        self._reading = asyncio.Lock()
        self._begun = self._ended = 0
        self._changed = asyncio.Event()
        self._found = self._down = False
        self._back = -math.inf
        self._unusable: dict[NodeId, str] = {}

    @property
    def stale(self) -> bool:
        """Whether the store did not answer when it was last asked: the view may be old."""
        return self._down

    async def open(self) -> None:
        """Read once, if the store answers, and follow from then on."""
        await self.refresh()
        self._task = asyncio.create_task(self._follow(), name="framehold membership")

    async def close(self) -> None:
        """Follow no longer; the last view stays. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def refresh(self) -> Fleet:
        """A view that was read after this was called; the last one where the store doesn't answer."""
        wanted = self._begun + 1
        async with self._reading:
            if self._ended < wanted:
                self._begun += 1
                serial = self._begun
                await self._read()
                self._ended = serial
        return self.fleet

    async def wait(self, predicate: Callable[[Fleet], bool]) -> Fleet:
        """The first view from now on that `predicate` is true of."""
        while not predicate(self.fleet):
            await self._changed.wait()
        return self.fleet

    async def _follow(self) -> None:
        async for told in self._store.changes():
            try:
                named = self._enough(told)
                if named:
                    async with self._reading:
                        await self._read(named)
                elif told or await self._differs():
                    await self.refresh()
            except Exception:
                # A follower that died would leave an ever older view, and say nothing.
                _log.exception("a bug in reading the node leases; the last view stays, the next change is read as ever")

    def _enough(self, told: Collection[NodeId | None]) -> set[NodeId]:
        """The nodes whose leases are all that need to be read; none where that doesn't do."""
        settled = not self._down and asyncio.get_running_loop().time() >= self._back + BACK
        named = {node for node in told if node is not None}
        return named if self._every > 1 and settled and len(named) == len(told) else set()

    async def _differs(self) -> bool:
        """Whether the leases are to be read though nothing was heard."""
        self._polls += 1
        if self._down or self._polls % self._every == 0:
            return True
        try:
            return await self._store.alive() != len(self.fleet.members)
        except StoreUnavailable:
            # The read will say so, and what becomes of requests.
            return True

    async def _read(self, named: Collection[NodeId] | None = None) -> None:
        """Look at all leases, or at those of some nodes."""
        try:
            leases = await self._store.nodes(named)
        except StoreUnavailable as error:
            if not self._down:
                _log.warning("the node leases can't be read, requests are placed by the last view: %s", error)
            self._down = True
            return
        if self._down:
            _log.info("the store is back: the node leases are read again")
            self._back = asyncio.get_running_loop().time()
        self._down = False
        members = {lease.node: Member.of(lease, self._trust) for lease in leases}
        if named is not None:
            others = {node: member for node, member in self.fleet.members.items() if node not in named}
            members = {**others, **members}
        elif asyncio.get_running_loop().time() < self._back + BACK:
            members = {**self.fleet.members, **members}
        self._report(members.values())
        self._show(Fleet.of(members.values(), self.fleet.ring))
        self._found = True
        self.on_looked(self.fleet.members, leases)

    def _report(self, members: Iterable[Member]) -> None:
        """One line for each node that nothing is sent to, and no second one until it changes."""
        unusable = {member.node: _why(member) for member in members if member.address is None}
        for node, why in unusable.items():
            if self._unusable.get(node) != why:
                _log.warning("nothing is sent to node %.80r: %s", node, why, extra={"node": node})
        self._unusable = unusable

    def _show(self, fleet: Fleet) -> None:
        before, self.fleet = self.fleet, fleet
        if fleet.ring is not before.ring:
            if self._found:
                self.change, self.changes = Change(before.ring, fleet.ring, time.time()), self.changes + 1
            came, went = fleet.ring.nodes - before.ring.nodes, before.ring.nodes - fleet.ring.nodes
            _log.info(
                "%d nodes on the ring; joined: %.300s; left: %.300s",
                len(fleet.ring.nodes),
                ", ".join(sorted(came)) or "none",
                ", ".join(sorted(went)) or "none",
            )
        if fleet.members != before.members:
            self._changed.set()
            self._changed = asyncio.Event()


def _why(member: Member) -> str:
    if member.state == STRANGE:
        return (
            "its lease doesn't show that it has one of this fleet's keys; give it the same FRAMEHOLD_KEYS, or a "
            "FRAMEHOLD_NAMESPACE of its own; if there is no such node, look who else writes to this store"
        )
    if not member.url:
        return "it has no address (FRAMEHOLD_ADVERTISE_URL): only what reaches it itself is served there"
    return f"it says that it is reached at {member.url[:200]!r}; its FRAMEHOLD_ADVERTISE_URL must be http://host:port"
