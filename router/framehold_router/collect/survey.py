"""Asks all nodes for their status at once, because the figures in a lease are as old as its last heartbeat.

The law: readers at the same moment share one survey (`shared_look`). For a node that does not answer, the figures of
its lease are used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from framehold_core.ids import Boot, Incarnation

from ..fleet.membership import DRAINING, STRANGE, Fleet, Member
from ..fleet.store_health import FULL, SILENT
from ..fleet.unheard import Answer, Ask
from ..fleet.unheard import Unanswered as NoAnswer
from ..models.nodes import NodeStatus, NodeView
from .node_client import NodeClient, Unanswered
from .shared_look import Shared

UNREACHABLE = "unreachable"
MAX_LAST_WORDS = 1000
"""Lives of nodes whose last word on the store is remembered."""

_PATH = "/admin/node"


class Survey:
    """The status of all nodes of a fleet. `noted` is called with each result. Belongs to one event loop; `close` it."""

    def __init__(self, fleet: Callable[[], Fleet], node_client: NodeClient) -> None:
        self._fleet, self._node_client = fleet, node_client
        self._shared = Shared(fleet, self._ask_all, "framehold survey")
        self.noted: Callable[[list[NodeView]], None] = lambda nodes: None
        self.last_words: dict[tuple[str, str], str | None] = {}
        """For each life of a node (its name and boot) its last report on the store."""

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
        for node in nodes:
            if node.state != UNREACHABLE:
                self.last_words.pop((node.node_id, node.boot), None)
                self.last_words[node.node_id, node.boot] = node.store
        while len(self.last_words) > MAX_LAST_WORDS:
            del self.last_words[next(iter(self.last_words))]
        self.noted(nodes)
        return nodes

    async def _ask(self, member: Member, share: float) -> NodeView:
        try:
            status = await self._node_client.ask(member, _PATH, NodeStatus)
        except Unanswered as error:
            # A node that drains stops listening a moment before it gives its lease back.
            leaves = member.state == DRAINING and not error.sent
            return _from_lease(member, share, DRAINING if leaves else UNREACHABLE)
        if status.node_id != member.node:
            # Another node has this address now: the lease is of a node that has gone.
            return _from_lease(member, share)
        return NodeView(**status.model_dump(), address=member.url, started=member.stats.started, share=share)


def _from_lease(member: Member, share: float, state: str = UNREACHABLE) -> NodeView:
    return NodeView(
        node_id=member.node,
        incarnation=member.inc,
        boot=member.boot,
        state=STRANGE if member.state == STRANGE else state,
        address=member.url,
        share=share,
        **member.stats._asdict(),
    )


def asking(node_client: NodeClient) -> Ask:
    """The function by which a router asks a node that the store does not hear of."""

    async def ask(member: Member) -> Answer | NoAnswer:
        try:
            # The next process under its name can't register at present: it proves another boot than the lease had.
            status = await node_client.ask(member._replace(boot=Boot("")), _PATH, NodeStatus)
        except Unanswered as error:
            return NoAnswer.LATE if error.sent else NoAnswer.GONE
        if status.node_id != member.node:
            return NoAnswer.GONE
        return Answer(
            Incarnation(status.incarnation),
            Boot(status.boot),
            status.handed_off is not None,
            status.store not in (FULL, SILENT),
        )

    return ask
