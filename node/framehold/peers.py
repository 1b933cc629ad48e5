"""The other nodes: where they are, and which call ids the ring maps to this one."""

from __future__ import annotations

import asyncio

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import Boot, CallId, NodeId
from framehold_core.lease import NodeRecord
from framehold_router.internal import Trust
from framehold_router.membership import Fleet, Member, Membership
from framehold_router.placement import fresh_call
from framehold_store.base import Store

from .forward import Forward
from .outages import Outages

LOOKS = 5
"""Of how many polls one reads all leases: what nodes say of themselves with each heartbeat is nothing to another."""
_DRAWS = 256
"""How many ids are drawn for one that the ring maps to this node; beyond it any will do, at the price of a relay."""


class Peers:
    """The fleet as one node sees it. `membership` is None for a process that shares no store: it has no peers."""

    def __init__(self, node: str, trust: Trust, store: Store | None) -> None:
        self.trust = trust
        self._node = NodeId(node)
        self._membership = None if store is None else Membership(store, trust, LOOKS)
        self._following: asyncio.Task[None] | None = None
        self.forward = Forward(trust, self._absent)
        self.outages = Outages(self._named, self.forward.reached)

    async def close(self) -> None:
        """Know nothing any more; requests that are being passed on are cut off."""
        await self.outages.close()
        if self._membership is not None and self._following is not None:
            await asyncio.wait((self._following,))
            await self._membership.close()
            self._following = None
        await self.forward.close()

    def _follow(self, membership: Membership) -> asyncio.Task[None]:
        if self._following is None:
            self._following = asyncio.create_task(membership.open(), name="framehold peers")
        return self._following

    async def follow(self) -> None:
        """Know the fleet as it is now, and follow it from here on."""
        if self._membership is not None:
            await asyncio.shield(self._follow(self._membership))
            await self._membership.refresh()

    def mint(self) -> CallId:
        """A fresh call id that the ring maps to this node, where it is on the ring.

        The first one has the membership followed from then on: a node behind routers needs none of it."""
        call = fresh_call()
        if self._membership is None:
            return call
        self._follow(self._membership)
        ring = self._membership.fleet.ring
        if self._node not in ring.nodes:
            return call
        owner = ring.owner
        for _ in range(_DRAWS):
            if owner(call) == self._node:
                break
            call = fresh_call()
        return call

    def member(self, lease: NodeRecord) -> Member:
        """What this fleet makes of a lease."""
        return Member.of(lease, self.trust)

    def heir(self, call: CallId) -> tuple[NodeId, str] | None:
        """Who carries a call on when this node no longer does, and where that is; None where no other node is live."""
        if self._membership is None:
            return None
        members = self._membership.fleet.members
        order = self._membership.fleet.ring.order(call)
        return next(((node, members[node].url) for node in order if node != self._node), None)

    async def address(self, node: NodeId, boot: Boot) -> str | None:
        """Where this life of a node's process is reached, empty where nothing may be sent to it; None where it is gone.

        Raises:
            StoreUnavailable: it is not in the last view, and the store doesn't answer: nobody knows.
        """
        if self._membership is None:
            return None
        member = self._membership.fleet.members.get(node)
        if member is None or member.boot != boot:
            await self._membership.refresh()
            member = self._membership.fleet.members.get(node)
        if member is not None and member.boot == boot:
            return "" if member.address is None else member.url
        if self._membership.stale:
            raise StoreUnavailable("the node leases can't be read: whether that process lives is not known")
        return None

    async def _named(self, address: str) -> bool:
        """Whether another node's lease still names this address."""
        if self._membership is None:
            return False
        # This node's own may name the same, where neither has one.
        members = (await self._membership.refresh()).members.values()
        return any(member.url == address and member.node != self._node for member in members)

    async def _absent(self, address: str) -> None:
        """Returns when no lease names this address any more, after one did."""
        membership = self._membership
        assert membership is not None, "without a store there is nobody to pass anything on to"
        # Shielded: whoever waits here is cancelled, and the following is everybody's.
        await asyncio.shield(self._follow(membership))
        await membership.wait(lambda fleet: _names(fleet, address))
        await membership.wait(lambda fleet: not _names(fleet, address))


def _names(fleet: Fleet, address: str) -> bool:
    return any(member.url == address for member in fleet.members.values())
