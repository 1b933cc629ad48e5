"""Asks all nodes for their status at once, because the figures in a lease are as old as its last heartbeat.

The law: readers at the same moment share one survey (`shared_look`). For a node that does not answer, the figures of
its lease are used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_fleet.members.membership import DRAINING, STRANGE, Fleet, Member
from framehold_fleet.members.store_health import OUT
from framehold_fleet.models.nodes import NodeStatus, NodeView

from .node_client import MAX_STATUS_BYTES, NodeClient, Unanswered
from .shared_look import SharedLook
from .unheard import Ask, NodeAnswer
from .unheard import WhyUnheard as NoAnswer

UNREACHABLE = "unreachable"
MAX_LAST_WORDS = 1000
"""Lives of nodes whose last word on the store is remembered."""
_SERIES = 30.0
"""Seconds after which a request that failed is forgotten, if no other failed since."""
_EXACT = 2.0
"""Seconds by which the time of a heartbeat may be wrong: this router polls the leases."""

_PATH = "/admin/node"


class Survey:
    """The status of all nodes of a fleet. `ages` gives the seconds since the last heartbeat of each node that has a
    lease. `noted` is called with each result. Belongs to one event loop; `close` it."""

    def __init__(
        self,
        fleet: Callable[[], Fleet],
        node_client: NodeClient,
        ages: Callable[[], Mapping[NodeId, float]] = dict,
    ) -> None:
        self._fleet, self._node_client, self._ages = fleet, node_client, ages
        self._missed: dict[tuple[str, str], tuple[float, float]] = {}
        """For each life that does not answer when the first and the last request failed, in the loop's time."""
        self._shared = SharedLook(fleet, self._ask_all, "framehold survey")
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
        lives = {(member.node, member.boot) for member in members}
        self._missed = {life: times for life, times in self._missed.items() if life in lives}
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
            status = await self._node_client.ask(member, _PATH, NodeStatus, max_bytes=MAX_STATUS_BYTES)
        except Unanswered as error:
            # A node that drains stops listening a moment before it gives its lease back.
            leaves = member.state == DRAINING and error.absent
            return self._unanswered(member, share, error, DRAINING if leaves else UNREACHABLE)
        if status.node_id != member.node:
            other = Unanswered(f"{status.node_id} answers there", absent=True)
            return self._unanswered(member, share, other, UNREACHABLE)
        self._missed.pop((member.node, member.boot), None)
        return NodeView(**status.model_dump(), address=member.url, started=member.stats.started, share=share)

    def _unanswered(self, member: Member, share: float, error: Unanswered, state: str) -> NodeView:
        """The view of a node that did not answer, from its lease."""
        now, life = asyncio.get_running_loop().time(), (member.node, member.boot)
        first, last = self._missed.get(life, (now, now))
        first = first if now - last <= _SERIES else now
        self._missed[life] = first, now
        age = self._ages().get(member.node)
        port = f" (asked on its admin port, {member.stats.admin_port})" if member.stats.admin_port else ""
        return NodeView(
            node_id=member.node,
            incarnation=member.inc,
            boot=member.boot,
            state=STRANGE if member.state == STRANGE else state,
            address=member.url,
            share=share,
            unanswered=f"{error}{port}",
            answer_status=error.status,
            lives=error.status is not None or (age is not None and now - age > first + _EXACT),
            heartbeat_age=age,
            **member.stats._asdict(),
        )


def asking(node_client: NodeClient) -> Ask:
    """The function by which a router asks a node that the store does not hear of."""

    async def ask(member: Member) -> NodeAnswer | NoAnswer:
        try:
            # The next process under its name can't register at present: it proves another boot than the lease had.
            status = await node_client.ask(
                member._replace(boot=Boot("")), _PATH, NodeStatus, max_bytes=MAX_STATUS_BYTES
            )
        except Unanswered as error:
            if error.absent:
                return NoAnswer.GONE
            return NoAnswer.LATE if error.status is None else NoAnswer.UNREAD
        if status.node_id != member.node:
            return NoAnswer.GONE
        return NodeAnswer(
            Incarnation(status.incarnation),
            Boot(status.boot),
            status.handed_off is not None,
            status.store not in OUT,
        )

    return ask
