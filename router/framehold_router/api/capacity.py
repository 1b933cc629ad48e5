"""The capacity of a fleet: how much of each limit is used, which is reached first, and whether a node may be lost.

The law: only what nodes measure is shown. A node that does not report a resource, or has no limit on it, does not count
for that resource.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from framehold_store.base import MemoryUse

from ..fleet.membership import LIVE
from ..models.capacity import CapacityView, ResourceView
from ..models.nodes import NodeView
from .sources import Asked, Sources

Name = Literal["frames", "processor", "memory", "store"]
_RESOURCES: tuple[tuple[Name, Callable[[NodeView], tuple[float | None, float | None]]], ...] = (
    ("frames", lambda node: (node.frames, node.max_parked)),
    ("processor", lambda node: (node.loop_busy, 1.0)),
    ("memory", lambda node: (node.rss, node.memory_limit)),
)


class _Usage(NamedTuple):
    node: str
    used: float
    limit: float

    @property
    def share(self) -> float:
        return self.used / self.limit


async def answer(sources: Sources, asked: Asked) -> CapacityView:
    """`GET capacity`."""
    nodes, store = await asyncio.gather(sources.survey.nodes(), sources.store_health.look())
    return of(nodes, store.memory)


def of(nodes: Iterable[NodeView], store: MemoryUse | None = None) -> CapacityView:
    """The capacity of the live nodes among `nodes`, and of the memory of the store if it has a limit."""
    live = [node for node in nodes if node.state == LIVE]
    resources = [found for name, read in _RESOURCES if (found := _resource(name, _usages(live, read))) is not None]
    if store is not None:
        share = store.used / store.limit
        resources.append(
            ResourceView(name="store", used=store.used, limit=store.limit, share=share, fullest="", fullest_share=share)
        )
    fullest = max(resources, key=lambda found: found.fullest_share, default=None)
    after = [found.without_fullest for found in resources if found.without_fullest is not None]
    return CapacityView(
        nodes=len(live),
        resources=resources,
        fills_first=None if fullest is None else fullest.name,
        survives=all(share <= 1 for share in after) if after else None,
    )


def _usages(nodes: Sequence[NodeView], read: Callable[[NodeView], tuple[float | None, float | None]]) -> list[_Usage]:
    readings = ((node.node_id, *read(node)) for node in nodes)
    return [_Usage(node, used, limit) for node, used, limit in readings if used is not None and limit]


def _resource(name: Name, usages: Sequence[_Usage]) -> ResourceView | None:
    if not usages:
        return None
    used, limit = sum(usage.used for usage in usages), sum(usage.limit for usage in usages)
    fullest = max(usages, key=lambda usage: usage.share)
    left = limit - fullest.limit
    return ResourceView(
        name=name,
        used=used,
        limit=limit,
        share=used / limit,
        fullest=fullest.node,
        fullest_share=fullest.share,
        without_fullest=used / left if left else None,
    )
