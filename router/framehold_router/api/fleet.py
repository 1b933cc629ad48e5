"""The nodes of a fleet, and each one's part of the ring."""

from __future__ import annotations

from itertools import islice

from framehold_core.ids import NodeId

from ..ring import Ring
from .about_nodes import ArcView, DepartedView, NodesView, RingNodeView, RingQuery, RingView
from .sources import Asked, Sources

HOUR = 3600.0
DEPARTED = 100
"""Of how many nodes that departed is told."""
ARCS = 4096
"""So many arcs are told at most: more than that nobody can see."""


async def nodes(sources: Sources, asked: Asked) -> NodesView:
    """`GET nodes`."""
    return NodesView(nodes=await sources.survey.nodes(), departed=_departed(sources))


def _departed(sources: Sources) -> list[DepartedView]:
    members, since = sources.fleet().members, sources.clock() - HOUR
    gone = [item for item in sources.departures.all() if item.detected > since and item.node not in members]
    gone.sort(key=lambda item: item.detected, reverse=True)
    return [
        DepartedView(
            node_id=item.node,
            boot=item.boot,
            how="left" if item.left else "lost",
            last_heartbeat=item.last_heartbeat,
            detected=item.detected,
            calls=item.parked,
        )
        for item in gone[:DEPARTED]
    ]


async def ring(sources: Sources, asked: Asked) -> RingView:
    """`GET ring`. Nodes that are not on it have no part of it."""
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
        changed=change.changed if change is not None else None,
    )


def _arcs(ring: Ring, names: list[NodeId]) -> list[ArcView]:
    index = {name: number for number, name in enumerate(names)}
    arcs = [ArcView(start=start, node=index[node]) for start, node in islice(ring.arcs(), ARCS + 1)]
    return arcs if len(arcs) <= ARCS else []
