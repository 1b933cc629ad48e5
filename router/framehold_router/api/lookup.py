"""Shows where the router sends a token. It reads only the routing prefix: no token is opened, stored or logged."""

from __future__ import annotations

from framehold_core import token
from framehold_core.ids import CallId

from ..fleet import session_ids
from ..models.calls import LookupQuery, LookupView
from ..routing.request_facts import Facts, Kind
from . import leases
from .node_client import Unanswered
from .sources import Asked, Sources


async def answer(sources: Sources, asked: Asked) -> LookupView:
    """`POST lookup`."""
    assert isinstance(asked.body, LookupQuery)
    text = asked.body.token
    session = session_ids.parse(text)
    if session is not None:
        member = sources.fleet().members.get(session.node)
        if member is None:
            return LookupView(kind="session", reason="the node that has this session is gone, and the session with it")
        if member.boot != session.boot:
            reason = "this session was of a former life of its node, which says that it is gone"
            return LookupView(kind="session", node_id=member.node, reason=reason)
        return LookupView(kind="session", node_id=member.node, reason="session")
    routed = token.parse(text)
    if routed is None:
        return LookupView(kind="other", reason="any")
    if routed.call is None:
        return LookupView(kind="replay", reason="any")
    return await _held(sources, routed.call)


async def _held(sources: Sources, call: CallId) -> LookupView:
    fleet = sources.fleet()
    on_ring, position = fleet.ring.owner(call) or "", fleet.ring.position(call)
    placement = sources.place(Facts(Kind.RETRY, call=call))
    member = fleet.members.get(placement.node) if placement is not None else None
    if placement is None or member is None:
        reason = "no node can be reached"
        return LookupView(kind="hold", call_id=call, ring_node=on_ring, position=position, reason=reason)
    try:
        live = await leases.one(sources, member, call)
    except Unanswered:
        live = None
    reason = placement.reason.value
    return LookupView(
        kind="hold",
        call_id=call,
        ring_node=on_ring,
        position=position,
        node_id=member.node,
        reason=reason,
        live=live,
    )
