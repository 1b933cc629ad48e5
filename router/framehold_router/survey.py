"""Asks every node how it is, all at once: what the leases say is as old as their last heartbeat.

The law: those who want to know at the same moment share one survey (`shared`). Where a node does not answer, its
lease's last word stands in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .api.about_nodes import NodeView, Said
from .api.ask import Asker, Unanswered
from .membership import STRANGE, Fleet, Member
from .shared import Shared

UNREACHABLE = "unreachable"

_PATH = "/admin/node"


class Survey:
    """What the nodes of a fleet say of themselves. `noted` hears of each result. Belongs to one event loop; `close`
    it."""

    def __init__(self, fleet: Callable[[], Fleet], asker: Asker) -> None:
        self._fleet, self._asker = fleet, asker
        self._shared = Shared(fleet, self._ask_all, "framehold survey")
        self.noted: Callable[[list[NodeView]], None] = lambda nodes: None

    async def nodes(self) -> list[NodeView]:
        """All nodes in order of their names."""
        return await self._shared.result()

    async def close(self) -> None:
        """Stop asking."""
        await self._shared.close()

    async def _ask_all(self) -> list[NodeView]:
        fleet = self._fleet()
        members = sorted(fleet.members.values(), key=lambda member: member.node)
        shares = fleet.ring.shares()
        nodes = await asyncio.gather(*(self._ask(member, shares.get(member.node, 0.0)) for member in members))
        self.noted(nodes)
        return nodes

    async def _ask(self, member: Member, share: float) -> NodeView:
        try:
            said = await self._asker.ask(member, _PATH, Said)
        except Unanswered:
            return _from_lease(member, share)
        if said.node_id != member.node:
            # Another node at this address: the lease is of one that has gone.
            return _from_lease(member, share)
        return NodeView(**said.model_dump(), address=member.url, started=member.stats.started, share=share)


def _from_lease(member: Member, share: float) -> NodeView:
    return NodeView(
        node_id=member.node,
        incarnation=member.inc,
        boot=member.boot,
        state=STRANGE if member.state == STRANGE else UNREACHABLE,
        address=member.url,
        share=share,
        **member.stats._asdict(),
    )
