"""Shows one node: its status, and its own profile of its memory."""

from __future__ import annotations

import asyncio

from framehold_core.ids import NodeId
from framehold_fleet.members.membership import Member
from framehold_fleet.models.fields import printable
from framehold_fleet.models.profile import NodeDetailView, Profile, Spent

from ..collect.node_client import Unanswered
from .sources import ApiRequest, RequestDenied, Sources

PATH = "/admin/profile"
MAX_PROFILE_BYTES = 128 * 1024
"""Bytes of a profile at most: it has about fifty names."""


async def answer(sources: Sources, asked: ApiRequest) -> NodeDetailView:
    """`GET nodes/{node_id}`."""
    member = sources.fleet().members.get(NodeId(asked.path["node_id"]))
    if member is None:
        raise _unknown()
    nodes, profile = await asyncio.gather(sources.survey.nodes(), _profile(sources, member))
    node = next((item for item in nodes if item.node_id == member.node), None)
    if node is None:
        raise _unknown()
    spent = Spent() if profile is None else profile
    return NodeDetailView(node=node, memory=spent.memory, tools=spent.tools, sessions=spent.sessions)


async def _profile(sources: Sources, member: Member) -> Profile | None:
    """The profile of a node; None if the node is of a release that has none.

    Raises:
        Refused: the node gave no answer that can be read.
    """
    try:
        profile = await sources.node_client.ask(member, PATH, Profile, max_bytes=MAX_PROFILE_BYTES)
    except Unanswered as error:
        if error.status == 404:
            return None
        raise _silent(member, f"did not say where its memory goes ({error})") from None
    if profile.node_id != member.node:
        raise _silent(member, "has another node at its address")
    return profile


def _silent(member: Member, why: str) -> RequestDenied:
    return RequestDenied(
        502,
        f"node {printable(member.node)} {why}: `nodes` has its last heartbeat; look at its process and log",
    )


def _unknown() -> RequestDenied:
    return RequestDenied(
        404, "no node of this name has a lease; see `nodes` for those that have, `failovers` for those gone"
    )
