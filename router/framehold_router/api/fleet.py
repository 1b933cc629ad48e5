"""The nodes of a fleet, and each one's part of the ring."""

from __future__ import annotations

from .about_nodes import NodesView, RingNodeView, RingView
from .sources import Asked, Sources


async def nodes(sources: Sources, asked: Asked) -> NodesView:
    """`GET nodes`."""
    return NodesView(nodes=await sources.survey.nodes())


async def ring(sources: Sources, asked: Asked) -> RingView:
    """`GET ring`. Nodes that are not on it have no part of it."""
    fleet, change = sources.fleet(), sources.change()
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
        moved=change.moved if change is not None else 0.0,
        changed=change.changed if change is not None else None,
    )
