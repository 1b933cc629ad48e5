"""Shows one node: how it is, and where its memory and its loop's time go, as it says itself."""

from __future__ import annotations

import asyncio

from framehold_core.ids import NodeId

from ..membership import Member
from .about_profile import NodeDetailView, Profile, Spent
from .ask import Unanswered
from .fields import printable
from .sources import Asked, Refused, Sources

PATH = "/admin/profile"
LONGEST = 128 * 1024
"""Bytes of a profile: some sixty names, the longest."""


async def answer(sources: Sources, asked: Asked) -> NodeDetailView:
    """`GET nodes/{node_id}`."""
    member = sources.fleet().members.get(NodeId(asked.path["node_id"]))
    if member is None:
        raise _unknown()
    nodes, profile = await asyncio.gather(sources.survey.nodes(), _profile(sources, member))
    node = next((item for item in nodes if item.node_id == member.node), None)
    if node is None:
        raise _unknown()
    spent = Spent() if profile is None else profile
    return NodeDetailView(node=node, memory=spent.memory, tools=spent.tools, loop=spent.loop, sessions=spent.sessions)


async def _profile(sources: Sources, member: Member) -> Profile | None:
    """What a node says of itself; None where it is of a release that doesn't know the question.

    Raises:
        Refused: it did not answer.
    """
    try:
        said = await sources.asker.ask(member, PATH, Profile, longest=LONGEST)
    except Unanswered as error:
        if error.status == 404:
            return None
        answered = "did not answer" if error.status is None else f"did not say where its time goes ({error.status})"
        raise _silent(member, answered) from None
    if said.node_id != member.node:
        raise _silent(member, "has another node at its address")
    return said


def _silent(member: Member, why: str) -> Refused:
    return Refused(
        502,
        f"node {printable(member.node)} {why}: `nodes` has what its last heartbeat said; look at its process and log",
    )


def _unknown() -> Refused:
    return Refused(404, "no node of this name has a lease; see `nodes` for those that have, `failovers` for those gone")
