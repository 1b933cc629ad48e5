"""The capacity of a fleet: how much of each limit is used, which is reached first, and whether a node may be lost.

The law: only what nodes measure is shown. A node that does not report a resource, or has no limit on it, does not count
for that resource.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from statistics import linear_regression
from typing import Literal, NamedTuple

from framehold_fleet.members.membership import LIVE
from framehold_fleet.models.capacity import CapacityView, ResourceView
from framehold_fleet.models.history import Sample
from framehold_fleet.models.nodes import NodeView
from framehold_store.base import MemoryUse

from ..collect.history import STEP
from . import history
from .sources import ApiRequest, Sources

Name = Literal["frames", "processor", "memory", "descriptors", "store"]
_RESOURCES: tuple[tuple[Name, Callable[[NodeView], tuple[float | None, float | None]]], ...] = (
    ("frames", lambda node: (node.frames, node.max_parked)),
    ("processor", lambda node: (node.loop_busy, 1.0)),
    ("memory", lambda node: (node.rss, node.memory_limit)),
    ("descriptors", lambda node: (node.descriptors, node.descriptors_limit)),
)

_SERIES = {"frames": "frames", "memory": "rss"}
"""The series of the history that says how a resource was used."""
_LEAST, _WEEK = 600, 7 * 86_400
"""Seconds that must be known before a slope means anything, and those that it is believed for at most."""


class _Usage(NamedTuple):
    node: str
    used: float
    limit: float

    @property
    def share(self) -> float:
        return self.used / self.limit


async def answer(sources: Sources, asked: ApiRequest) -> CapacityView:
    """`GET capacity`."""
    nodes, store, samples = await asyncio.gather(
        sources.survey.nodes(), sources.store_health.look(), history.last_hour(sources)
    )
    return of(nodes, store.memory, samples)


def of(
    nodes: Iterable[NodeView], store: MemoryUse | None = None, samples: Sequence[Sample | None] = ()
) -> CapacityView:
    """The capacity of the live nodes among `nodes`, and of the memory of the store if it has a limit. `samples` are
    those of the last hour."""
    live = [node for node in nodes if node.state == LIVE]
    resources = [
        found
        for name, read in _RESOURCES
        if (found := _resource(name, _usages(live, read), _SERIES.get(name, ""), samples)) is not None
    ]
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


def _resource(
    name: Name, usages: Sequence[_Usage], series: str, samples: Sequence[Sample | None]
) -> ResourceView | None:
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
        full_in=min((at for usage in usages if (at := _full_in(usage, series, samples)) is not None), default=None),
    )


def _full_in(usage: _Usage, series: str, samples: Sequence[Sample | None]) -> float | None:
    """Seconds until a node reaches its limit at the slope of its samples; None without a `series` of the resource."""
    if not series:
        return None
    points = [
        (index * STEP, value)
        for index, sample in enumerate(samples)
        if sample is not None
        and (figures := sample.nodes.get(usage.node)) is not None
        and (value := getattr(figures, series, None)) is not None
    ]
    if len(points) * STEP < _LEAST:
        return None
    slope = linear_regression(*zip(*points, strict=True)).slope
    left = (usage.limit - usage.used) / slope if slope > 0 else _WEEK + 1
    return max(0.0, left) if left <= _WEEK else None
