"""The members of the fleet: an immutable view of the node leases, which follows the store.

The law: a view is complete, and never older than the view before it. While the store is down the last view stays: a
node that is gone costs a failed connection attempt, but an empty view would refuse every request. A router asks the
nodes themselves while the store is down or refuses heartbeats, and keeps those that answer (`unheard`). For `BACK`
seconds after such an outage, members without a lease stay in the view too: nobody could renew leases meanwhile, and
the nodes register again one by one. Readers take the last view without waiting; a reader that needs a newer one calls
`refresh`.

The store sends a notice of each change, but none when a lease runs out. Reading N leases in each of N processes at each
poll would cost too much. So a process that needs only the members reads the leases that a notice names. At each poll it
counts the nodes, and reads all leases if their number is not that of the view. Every so many polls it reads all leases
in any case.

    1. A calls `refresh`; its read begins
    2. B calls `refresh`: A's read may have begun too early for B, so B waits for the next read
    3. C calls `refresh`; it shares B's read, which has not begun
    4. A's read ends, and one read for B and C begins
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from framehold_core.clock import Clock
from framehold_core.errors import StoreUnavailable
from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_core.lease import LIVE as _LIVE
from framehold_core.lease import NodeRecord
from framehold_store.base import Store
from framehold_store.system_clock import measure, system_clock

from ..identity.lease_seal import LeaseSeal
from .address import Address, TlsAddress, address_of
from .node_stats import Stats, read
from .ring import Change, Ring

_log = logging.getLogger(__name__)

LIVE = _LIVE
DRAINING = "draining"
STRANGE = "other keys"
"""The state of a node that has none of this fleet's keys, or under whose name stands something that no process with a
key has written, or that has ended. It can't open the tokens of this fleet, and must not get one."""

BACK = 5.0
"""Seconds after the return of the store for which a node without a lease stays in the view: so long nodes need to
register again. Also the seconds for which a node stays in the view whose lease somebody has overwritten."""
Members = Mapping["NodeId", "Member"]
Kept = Callable[[Members, Members], Awaitable[Members | None]]
"""Takes the members of the last view whose leases are not known, and those that have a lease. Returns the members
without a lease that stay in the view, or None if a node can write to the store and has a lease."""


class Member(NamedTuple):
    """One node, as its lease describes it. `address` is None if nothing may be sent to it."""

    node: NodeId
    inc: Incarnation
    boot: Boot
    state: str
    url: str
    address: Address | None
    stats: Stats
    beat: int = 0
    """How many heartbeats its lease has had."""

    @property
    def admin(self) -> tuple[str, int] | TlsAddress | None:
        """Where the node serves its admin API: on its admin port, if it has one. Both ports speak TLS, or none."""
        if self.address is None or isinstance(self.address, str):
            return None
        port = self.stats.admin_port or self.address[1]
        return TlsAddress(self.address[0], port) if isinstance(self.address, TlsAddress) else (self.address[0], port)

    @property
    def prefix(self) -> str:
        """The path below which `admin` serves the pages of the node; empty at the root."""
        return "" if self.stats.admin_port else self.stats.prefix or ""

    @classmethod
    def of(cls, lease: NodeRecord, seals: LeaseSeal) -> Member:
        """The member that a lease describes. A lease whose seal does not hold gives a member without an address: a node
        gets tokens and answers, so nothing is sent to an unknown one."""
        address, state = address_of(lease.address), lease.state
        if not seals.holds(lease):
            address, state = None, STRANGE
        return cls(lease.node, lease.inc, lease.boot, state, lease.address, address, read(lease.stats), lease.beat)


class Fleet(NamedTuple):
    """All members by name, and the ring of those that take new calls."""

    members: Mapping[NodeId, Member]
    ring: Ring

    @classmethod
    def of(cls, members: Iterable[Member], before: Ring | None = None) -> Fleet:
        """The view of these members. The ring `before` is used again if it has the same nodes; otherwise the new ring
        is made from it, because a ring from nothing takes half a millisecond per node."""
        by_name = {member.node: member for member in sorted(members, key=lambda member: member.node)}
        names = frozenset(
            name for name, member in by_name.items() if member.state == LIVE and member.address is not None
        )
        ring = before if before is not None and before.nodes == names else Ring(names, before=before)
        return cls(MappingProxyType(by_name), ring)


class Membership:
    """Follows the node leases of a store; the caller opens and closes the store. Only leases whose `seals` hold belong
    to the fleet. Every `every`th poll reads all leases, the other polls count them. If `every` is 1, a notice
    of a change makes it read all leases too. `kept` asks members without a lease whether they live; without it they
    leave the view. Each poll measures the store's clock for `clock`, the clock of this process. Belongs to one event
    loop."""

    def __init__(
        self, store: Store, seals: LeaseSeal, every: int = 1, kept: Kept | None = None, clock: Clock | None = None
    ) -> None:
        self._seals, self._kept, self._clock = seals, kept, clock or system_clock()
        self._every, self._polls = every, 0
        self.fleet = Fleet.of(())
        """The newest view."""
        self.on_looked: Callable[[Mapping[NodeId, Member], Iterable[NodeRecord]], None] = lambda members, leases: None
        """Called after each read that the store answered, with the members and the leases that were read and hold."""
        self.change: Change | None = None
        """The last change of the ring; None until the first ring has changed."""
        self.changes = 0
        """How often the ring has changed."""
        self._store = store
        self._task: asyncio.Task[None] | None = None
        self._reading = asyncio.Lock()
        self._begun = self._ended = 0
        self._changed = asyncio.Event()
        self._found = self._unheard = False
        self.trouble: StoreUnavailable | None = None
        """Why the last read of the leases failed; None if the store answered it."""
        self._back = -math.inf
        self._unusable: dict[NodeId, str] = {}
        self._overwritten: dict[NodeId, float] = {}
        """The members whose leases somebody has overwritten, each with the time on the loop at which that was seen."""

    @property
    def stale(self) -> bool:
        """Whether the store did not answer the last read: the view may be old."""
        return self.trouble is not None

    async def open(self) -> None:
        """Read the leases once, if the store answers, and follow them from then on. May follow a `close`, in this or
        another event loop."""
        self._reading, self._changed = asyncio.Lock(), asyncio.Event()
        await self._measure()
        await self.refresh()
        self._task = asyncio.create_task(self._follow(), name="framehold membership")

    async def close(self) -> None:
        """Stop to follow the leases; the last view stays. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def refresh(self) -> Fleet:
        """Return a view whose read began after this call; the last view if the store doesn't answer."""
        wanted = self._begun + 1
        async with self._reading:
            if self._ended < wanted:
                self._begun += 1
                serial = self._begun
                await self._read()
                self._ended = serial
        return self.fleet

    async def wait(self, predicate: Callable[[Fleet], bool]) -> Fleet:
        """Wait for a view for which `predicate` is true, and return it; at once if the present view is one."""
        while not predicate(self.fleet):
            await self._changed.wait()
        return self.fleet

    async def _follow(self) -> None:
        async for changed in self._store.changes():
            try:
                named = self._sufficient(changed)
                if named:
                    async with self._reading:
                        await self._read(named)
                    continue
                await self._measure()
                if changed or await self._differs():
                    await self.refresh()
            except Exception:
                # Without this the task would end, and the view would grow old without a word in the log.
                _log.exception("a bug in reading the node leases; the last view stays, the next change is read as ever")

    async def _measure(self) -> None:
        # What the store's silence means is said by the read that follows.
        with contextlib.suppress(StoreUnavailable):
            await measure(self._clock, self._store)

    def _sufficient(self, changed: Collection[NodeId | None]) -> set[NodeId]:
        """The nodes whose leases it suffices to read after this notice; empty if all leases must be read."""
        settled = not self.stale and asyncio.get_running_loop().time() >= self._back + BACK
        named = {node for node in changed if node is not None}
        return named if self._every > 1 and settled and len(named) == len(changed) else set()

    async def _differs(self) -> bool:
        """Whether all leases must be read at this poll, although no notice came."""
        self._polls += 1
        if self.stale or self._polls % self._every == 0:
            return True
        try:
            return await self._store.count_nodes() != len(self.fleet.members)
        except StoreUnavailable:
            # The read that follows fails too, and logs it.
            return True

    async def _read(self, named: Collection[NodeId] | None = None) -> None:
        """Read all leases, or those of the nodes `named`, and make the view from them."""
        try:
            leases = await self._store.nodes(named)
        except StoreUnavailable as error:
            if not self.stale:
                _log.warning("the node leases can't be read, requests are placed by the last view: %s", error)
            self.trouble = error
            if self._kept is not None and (members := await self._kept(self.fleet.members, {})):
                self._show(Fleet.of(members.values(), self.fleet.ring))
            return
        if self.stale:
            _log.info("the store is back: the node leases are read again")
            self._back = asyncio.get_running_loop().time()
        self.trouble = None
        members = {lease.node: self._member(lease) for lease in leases}
        if named is not None:
            others = {node: member for node, member in self.fleet.members.items() if node not in named}
            members = {**others, **members}
        else:
            absent = {node: member for node, member in self.fleet.members.items() if node not in members}
            members = {**await self._without_lease(absent, members), **members}
            self._overwritten = {node: at for node, at in self._overwritten.items() if node in members}
        self._report(members.values())
        self._show(Fleet.of(members.values(), self.fleet.ring))
        self._found = True
        self.on_looked(self.fleet.members, [lease for lease in leases if self._seals.holds(lease)])

    def _member(self, lease: NodeRecord) -> Member:
        """The member that a lease describes. Where another lease of it held before, of the same life or a later one,
        that one counts for `BACK` seconds more: the node replaces what somebody else has written there with its next
        heartbeat."""
        member, before = Member.of(lease, self._seals), self.fleet.members.get(lease.node)
        if before is None or before.state == STRANGE or (member.state != STRANGE and member.boot >= before.boot):
            self._overwritten.pop(lease.node, None)
            return member
        now = asyncio.get_running_loop().time()
        return before if now < self._overwritten.setdefault(lease.node, now) + BACK else member

    async def _without_lease(self, absent: Members, leased: Members) -> Members:
        """The members without a lease that stay in the view: those that may not have been able to renew it."""
        now = asyncio.get_running_loop().time
        if now() < self._back + BACK:
            return absent
        if self._kept is None:
            return {}
        before, kept = self._unheard, await self._kept(absent, leased)
        self._unheard = bool(kept)
        if kept is None and before:
            self._back = now()
            return absent
        return kept or {}

    def _report(self, members: Iterable[Member]) -> None:
        """Log one line for each node that nothing is sent to; the next line follows only after the reason has
        changed."""
        unusable = {member.node: _why(member) for member in members if member.address is None}
        for node, why in unusable.items():
            if self._unusable.get(node) != why:
                _log.warning("nothing is sent to node %.80r: %s", node, why, extra={"node": node})
        self._unusable = unusable

    def _show(self, fleet: Fleet) -> None:
        before, self.fleet = self.fleet, fleet
        if fleet.ring is not before.ring:
            if self._found:
                now = self._clock.time()
                last = self.change
                self.change = last.then(fleet.ring, now) if last else Change.alone(before.ring, fleet.ring, now)
                self.changes += 1
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
            "no process with one of this fleet's keys has written its lease, or that has ended; give it the same "
            "FRAMEHOLD_KEYS, or a FRAMEHOLD_NAMESPACE of its own; if there is no such node, look who else writes to "
            "this store"
        )
    if not member.url:
        return "it has no address (FRAMEHOLD_ADVERTISE_URL): only what reaches it itself is served there"
    says = f"it says that it is reached at {member.url[:200]!r}"
    return f"{says}; its FRAMEHOLD_ADVERTISE_URL must be http://host:port or https://host:port"
