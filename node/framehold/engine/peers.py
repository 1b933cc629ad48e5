"""The other nodes of the fleet: their addresses, and which call ids the ring maps to this node."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Collection

from framehold_core import ownership
from framehold_core.clock import Clock
from framehold_core.errors import StoreUnavailable
from framehold_core.ids import Boot, CallId, NodeId
from framehold_core.lease import NodeRecord
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members.address import Receiver, address_of
from framehold_fleet.members.membership import STRANGE, Fleet, Member, Membership
from framehold_fleet.members.ring import fresh_call
from framehold_store.base import Store

from .heartbeat import Alone, Heartbeat

POLLS_PER_READ = 5
"""One poll in this many reads all leases; the others only count them. The load that nodes report with each heartbeat is
of no use to another node."""
_MAX_DRAWS = 256
"""How many ids are drawn at most until the ring maps one to this node. After that any id is used, and its requests are
relayed."""


_here: list[Heartbeat | Alone] = []
"""The heartbeats of all nodes that are open in this process."""


def opened(heartbeat: Heartbeat | Alone) -> None:
    """Count a node among those of this process."""
    _here.append(heartbeat)


def closed(heartbeat: Heartbeat | Alone) -> None:
    """Count a node no longer."""
    if heartbeat in _here:
        _here.remove(heartbeat)


def boots(own: Heartbeat | Alone) -> tuple[Boot, ...]:
    """The boot of a node, then those of the other nodes that this process serves at its address."""
    if len(_here) == 1 or not own.address:
        return (own.lease.boot,)
    return (own.lease.boot, *(one.lease.boot for one in _here if one is not own and one.address == own.address))


class Peers:
    """The fleet as one node sees it. `membership` is None for a process that shares no store: it has no peers."""

    def __init__(self, node: str, trust: Trust, seals: LeaseSeal, store: Store | None, clock: Clock) -> None:
        self.trust, self.seals, self.clock = trust, seals, clock
        self.node = NodeId(node)
        """The id of this node."""
        self.admin_port: int | None = None
        """The port on which this node serves its admin API; None: where it serves clients."""
        self.prefix: str | None = None
        """The path below which the app of this node is mounted; None as long as that is not known."""
        self.identity: Callable[[], tuple[str | None, str | None]] = lambda: (None, None)
        """Gives the name of this node's server, and the digest of the names of its tools."""
        self._membership = None if store is None else Membership(store, seals, POLLS_PER_READ, clock=clock)
        self._following: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Stop following the fleet."""
        following, self._following = self._following, None
        if self._membership is not None and following is not None:
            await asyncio.wait((following,))
            await self._membership.close()

    def _follow(self, membership: Membership) -> asyncio.Task[None]:
        if self._following is None:
            # All calls share it: it takes over nothing of the one that comes first.
            following = membership.open()
            self._following = asyncio.create_task(following, name="framehold peers", context=contextvars.Context())
        return self._following

    async def follow(self) -> None:
        """Read the fleet as it is now, and follow its changes from now on."""
        if self._membership is not None:
            # The task is shared, and not awaited itself: the end of the event loop may have cancelled it.
            await asyncio.wait((self._follow(self._membership),))
            await self._membership.refresh()

    def mint(self) -> CallId:
        """A new call id, mapped to this node if this node is on the ring.

        The first call starts to follow the fleet: a node behind routers never makes an id and needs no membership."""
        call = fresh_call(self.clock.fresh)
        if self._membership is None:
            return call
        self._follow(self._membership)
        ring = self._membership.fleet.ring
        if self.node not in ring.nodes:
            return call
        owner = ring.owner
        for _ in range(_MAX_DRAWS):
            if owner(call) == self.node:
                break
            call = fresh_call(self.clock.fresh)
        return call

    def member(self, lease: NodeRecord) -> Member:
        """A node's lease as a member of the fleet; its state is STRANGE if the seal of the lease does not hold."""
        return Member.of(lease, self.seals)

    def heir(self, call: CallId) -> tuple[NodeId, str] | None:
        """The name and the address of the node that carries a call on when this node no longer does; None if no other
        node is live."""
        if self._membership is None:
            return None
        fleet = self._membership.fleet
        addresses = {node: member.url for node, member in fleet.members.items()}
        node = ownership.heir(self.node, fleet.ring.order(call), addresses)
        return None if node is None else (node, addresses[node])

    async def address(self, node: NodeId, boot: Boot) -> str | None:
        """The address of one life (`boot`) of a node's process. Empty if no address is known, or if somebody has
        overwritten the node's lease; None if that life is over.

        Raises:
            StoreUnavailable: it is not in the last view of the fleet, and the store doesn't answer.
        """
        if self._membership is None:
            return None
        member = self._membership.fleet.members.get(node)
        if member is None or member.boot != boot:
            await self._membership.refresh()
            member = self._membership.fleet.members.get(node)
        if member is not None and (member.boot == boot or member.state == STRANGE):
            return "" if member.address is None else member.url
        if self._membership.stale:
            raise StoreUnavailable("the node leases can't be read: whether that process lives is not known")
        return None

    async def receiver(self, url: str) -> Receiver | None:
        """The process that leases say is reached at `url`; None if there is none, or nothing may be sent there."""
        if self._membership is None:
            return None
        found = _at(self._membership.fleet, url)
        if not found:
            found = _at(await self._membership.refresh(), url)
        place = address_of(url)
        return None if place is None or not found else Receiver(place, tuple(found))

    async def names(self, address: str) -> bool:
        """Whether another node's lease still names this address."""
        if self._membership is None:
            return False
        # Without addresses, this node's own lease has the same empty one.
        members = (await self._membership.refresh()).members.values()
        return any(_is_at(member, address) and member.node != self.node for member in members)

    async def vanished(self, boots: Collection[Boot]) -> None:
        """Wait until none of these processes, which `receiver` has found, has a lease any more."""
        membership = self._membership
        assert membership is not None, "without a store there is nobody to pass anything on to"
        # Shielded: a cancelled waiter must not cancel the task that all of them share.
        await asyncio.shield(self._follow(membership))
        await membership.wait(lambda fleet: not any(_is_one_of(member, boots) for member in fleet.members.values()))


def _at(fleet: Fleet, url: str) -> list[Boot]:
    return [member.boot for member in fleet.members.values() if member.url == url and member.address is not None]


def _is_at(member: Member, address: str) -> bool:
    return member.url == address and member.state != STRANGE


def _is_one_of(member: Member, boots: Collection[Boot]) -> bool:
    return member.boot in boots and member.state != STRANGE
