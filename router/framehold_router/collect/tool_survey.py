"""Asks all nodes for their tools at once.

The law: readers at the same moment share one survey (`shared_look`). A node that does not answer is named, and its
tools are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from framehold_fleet.members.membership import Fleet, Member
from framehold_fleet.models.tools import ToolsStatus

from .node_client import MAX_STATUS_BYTES, NodeClient, Unanswered
from .shared_look import SharedLook

_PATH = "/admin/tools"


class ToolsSeen(NamedTuple):
    """The tools of each node that answered, and the names of the nodes that did not."""

    nodes: tuple[ToolsStatus, ...]
    missing: tuple[str, ...]


class ToolSurvey:
    """The tools of all nodes of a fleet. Belongs to one event loop; `close` it."""

    def __init__(self, fleet: Callable[[], Fleet], node_client: NodeClient) -> None:
        self._fleet, self._node_client = fleet, node_client
        self._shared = SharedLook(fleet, self._ask_all, "framehold tool survey")

    async def seen(self) -> ToolsSeen:
        """The tools of all nodes."""
        return await self._shared.result()

    async def close(self) -> None:
        """Stop asking."""
        await self._shared.close()

    async def _ask_all(self) -> ToolsSeen:
        members = sorted(self._fleet().members.values(), key=lambda member: member.node)
        found = await asyncio.gather(*(self._ask(member) for member in members))
        return ToolsSeen(
            nodes=tuple(status for status in found if status is not None),
            missing=tuple(member.node for member, status in zip(members, found, strict=True) if status is None),
        )

    async def _ask(self, member: Member) -> ToolsStatus | None:
        try:
            status = await self._node_client.ask(member, _PATH, ToolsStatus, max_bytes=MAX_STATUS_BYTES)
        except Unanswered:
            return None
        # Another node may have this address now.
        return status if status.node_id == member.node else None
