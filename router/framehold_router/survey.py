"""Asks every node how it is, all at once: what the leases say is as old as their last heartbeat.

The law: those who want to know at the same moment share one survey, and its result stands for FRESH seconds; but not
for a fleet that has changed since. Where a node does not answer, its lease's last word stands in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .api.about_nodes import NodeView, Said
from .api.ask import Asker, Unanswered
from .membership import STRANGE, Fleet, Member

FRESH = 0.5
UNREACHABLE = "unreachable"

_PATH = "/admin/node"


class Survey:
    """What the nodes of a fleet say of themselves. `noted` hears of each result. Belongs to one event loop; `close`
    it."""

    def __init__(self, fleet: Callable[[], Fleet], asker: Asker) -> None:
        self._fleet, self._asker = fleet, asker
        self._under_way: asyncio.Task[list[NodeView]] | None = None
        self._asking: set[asyncio.Task[list[NodeView]]] = set()
        self._of: frozenset[tuple[str, str, str]] = frozenset()
        self._until = 0.0
        self.noted: Callable[[list[NodeView]], None] = lambda nodes: None

    async def nodes(self) -> list[NodeView]:
        """All nodes in order of their names."""
        task, now = self._under_way, asyncio.get_running_loop().time()
        of = frozenset((member.node, member.boot, member.state) for member in self._fleet().members.values())
        if task is None or of != self._of or (task.done() and now >= self._until):
            task = self._under_way = asyncio.create_task(self._ask_all(), name="framehold survey")
            self._of = of
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        # One reader who leaves must not take the answer from the others.
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Stop asking."""
        tasks = tuple(self._asking)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask_all(self) -> list[NodeView]:
        fleet = self._fleet()
        members = sorted(fleet.members.values(), key=lambda member: member.node)
        shares = fleet.ring.shares()
        nodes = await asyncio.gather(*(self._ask(member, shares.get(member.node, 0.0)) for member in members))
        self._until = asyncio.get_running_loop().time() + FRESH
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
