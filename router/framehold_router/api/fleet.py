"""The nodes of a fleet, the part of the ring that each node has, and what happened lately."""

from __future__ import annotations

import asyncio
from itertools import islice

from framehold_core.ids import NodeId
from framehold_fleet.members.ring import Ring
from framehold_fleet.models.events import EventsView
from framehold_fleet.models.nodes import ArcView, DepartedView, NodesView, RingNodeView, RingQuery, RingView

from ..collect.fleet_log import FleetPast
from .sources import ApiRequest, Sources

HOUR = 3600.0
MAX_DEPARTED = 100
"""Departed nodes that are listed at most."""
MAX_ARCS = 4096
"""Arcs that are listed at most. With more of them the list is empty: nobody could see so many."""


async def nodes(sources: Sources, asked: ApiRequest) -> NodesView:
    """`GET nodes`."""
    found, logged = await asyncio.gather(sources.survey.nodes(), sources.log.logged())
    return NodesView(nodes=found, departed=departed(sources, logged))


def departed(sources: Sources, logged: FleetPast) -> list[DepartedView]:
    """The nodes that departed in the last hour and have no lease now, the newest first."""
    members, since = sources.fleet().members, sources.clock() - HOUR
    gone = [end for end in logged.ends.values() if end.detected > since and NodeId(end.node_id) not in members]
    gone.sort(key=lambda item: item.detected, reverse=True)
    return [
        DepartedView(
            node_id=item.node_id,
            boot=item.boot,
            how="left" if item.left else "lost",
            last_heartbeat=item.last_heartbeat,
            detected=item.detected,
            calls=item.calls,
            store=sources.survey.last_words.get((item.node_id, item.boot)),
        )
        for item in gone[:MAX_DEPARTED]
    ]


async def events(sources: Sources, asked: ApiRequest) -> EventsView:
    """`GET events`: the latest events of the event log."""
    return EventsView(events=list((await sources.log.logged()).events))


async def ring(sources: Sources, asked: ApiRequest) -> RingView:
    """`GET ring`. Nodes that are not on the ring are listed with a share of 0."""
    fleet, change, query = sources.fleet(), sources.change(), asked.query
    shares, points = fleet.ring.shares(), fleet.ring.points_of()
    return RingView(
        nodes=[
            RingNodeView(
                node_id=name,
                state=member.state,
                ideal_share=1 / len(fleet.ring.nodes) if name in fleet.ring.nodes else 0.0,
                share=shares.get(name, 0.0),
                points=points.get(name, 0),
            )
            for name, member in sorted(fleet.members.items())
        ],
        points=fleet.ring.points,
        arcs=_arcs(fleet.ring, sorted(fleet.members)) if isinstance(query, RingQuery) and query.arcs else [],
        moved=change.moved if change is not None else 0.0,
        moved_together=change.moved_together if change is not None else 0.0,
        changed=change.changed if change is not None else None,
    )


def _arcs(ring: Ring, names: list[NodeId]) -> list[ArcView]:
    index = {name: number for number, name in enumerate(names)}
    arcs = [ArcView(start=start, node=index[node]) for start, node in islice(ring.arcs(), MAX_ARCS + 1)]
    return arcs if len(arcs) <= MAX_ARCS else []
