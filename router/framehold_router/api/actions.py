"""Sends the actions of an operator to nodes: drain, undrain, kill, cancel, evict, pause, resume.

The law: an action on a call is done only by the node that holds the call. It is sent to each node once at most. If an
answer is missing, whether the action was done is unknown, and the error says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from framehold_core.ids import NodeId, prefix
from framehold_fleet.members.membership import Member
from framehold_fleet.models.fields import printable
from framehold_fleet.models.nodes import DoneView, ErrorView, ToolQuery

from ..collect.node_client import ActionResponse, Unanswered
from .call import named, owner_of, read
from .sources import ApiRequest, RequestDenied, Sources

_log = logging.getLogger(__name__)


class _NodeReply(NamedTuple):
    """The answer of one node to an action; None if there is none. `unknown`: whether it may have been done all the
    same. `why` says why there is no answer, or none that tells."""

    member: Member
    outcome: ActionResponse | None = None
    unknown: bool = False
    why: str = ""


async def drain(sources: Sources, asked: ApiRequest) -> DoneView:
    """`POST nodes/{node_id}/drain`."""
    return await _on_node(sources, asked, "drain")


async def undrain(sources: Sources, asked: ApiRequest) -> DoneView:
    """`POST nodes/{node_id}/undrain`."""
    return await _on_node(sources, asked, "undrain")


async def kill(sources: Sources, asked: ApiRequest) -> DoneView:
    """`POST nodes/{node_id}/kill`. Only a fleet whose playground may kill nodes does this."""
    if sources.playground != "kill":
        raise RequestDenied(
            409, "this router kills no nodes: nothing was done; `framehold up` sets FRAMEHOLD_PLAYGROUND=kill"
        )
    return await _on_node(sources, asked, "kill")


async def _on_node(sources: Sources, asked: ApiRequest, what: str) -> DoneView:
    name = asked.path["node_id"]
    member = sources.fleet().members.get(NodeId(name))
    if member is None:
        raise RequestDenied(404, "no node of this name has a lease: nothing was done; see `nodes` for those that have")
    reply = await _act(sources, member, what, {})
    _log.info("an operator wanted to %s node %.80r: %s", what, name, _status(reply))
    return _result((reply,), what)


async def cancel(sources: Sources, asked: ApiRequest) -> DoneView:
    """`POST leases/{call_id}/cancel`."""
    return await _on_call(sources, asked, "cancel")


async def evict(sources: Sources, asked: ApiRequest) -> DoneView:
    """`POST leases/{call_id}/evict`."""
    return await _on_call(sources, asked, "evict")


async def pause(sources: Sources, asked: ApiRequest) -> DoneView:
    """`POST tools/pause`."""
    return await _on_tool(sources, asked, "pause")


async def resume(sources: Sources, asked: ApiRequest) -> DoneView:
    """`POST tools/resume`."""
    return await _on_tool(sources, asked, "resume")


async def _on_tool(sources: Sources, asked: ApiRequest, what: str) -> DoneView:
    """Have one node write the change to the store: the others read it there. Another node is asked only while none was
    reached that has the tool: in a rolling update, some have a new one. That a tool is not paused, the store says: it
    holds for all nodes."""
    assert isinstance(asked.body, ToolQuery)
    replies: list[_NodeReply] = []
    for member in sources.fleet().members.values():
        if member.address is not None:
            replies.append(await _act(sources, member, what, asked.body.model_dump()))
            if replies[-1].outcome is not None and (what == "resume" or not _knows_nothing(replies[-1])):
                break
    _log.info("an operator wanted to %s tool %.80r: %s", what, asked.body.tool, ", ".join(map(_status, replies)))
    if not replies:
        raise RequestDenied(502, f"no node is live: the {what} was not done; start one, then try again")
    missing = [item for item in replies if _knows_nothing(item)]
    text = next((_text(item.outcome) for item in reversed(missing) if item.outcome is not None), "")
    if missing and (what == "resume" or len(missing) == len(replies)):
        raise RequestDenied(404, text)
    return _result(replies, what, f". {_names(missing[-1:])} says: {text}" if missing else "")


async def _on_call(sources: Sources, asked: ApiRequest, what: str) -> DoneView:
    call = named(asked)
    try:
        owner = owner_of(sources, await read(sources, call))
    except RequestDenied:
        # The store can't name the owner. All nodes are asked, because each knows which calls it holds.
        owner = None
    body = {"call_id": str(call)}
    replies: list[_NodeReply] = []
    if owner is not None:
        replies.append(await _act(sources, owner, what, body))
    if all(_knows_nothing(item) for item in replies):
        asked_before = {item.member.node for item in replies}
        members = sources.fleet().members.values()
        others = [member for member in members if member.node not in asked_before and member.address]
        replies += await asyncio.gather(*(_act(sources, member, what, body) for member in others))
    statuses = ", ".join(map(_status, replies)) or "no node"
    _log.info("an operator wanted to %s call %s: %s", what, prefix(call), statuses, extra={"call": prefix(call)})
    return _result(replies, what)


async def _act(sources: Sources, member: Member, what: str, body: dict[str, str]) -> _NodeReply:
    try:
        outcome = await sources.node_client.act(member, f"/admin/{what}", body, sources.credential)
        # Its store is silent, so the node itself does not know.
        unknown = outcome.status == 503
        return _NodeReply(member, outcome, unknown, _text(outcome) if unknown else "")
    except Unanswered as error:
        return _NodeReply(member, unknown=error.sent, why=str(error))


def _knows_nothing(reply: _NodeReply) -> bool:
    """Whether the node answered that it doesn't hold the call, or have the tool, so that another node may."""
    return reply.outcome is not None and reply.outcome.status == 404


def _status(reply: _NodeReply) -> str:
    return "no answer" if reply.outcome is None else str(reply.outcome.status)


def _result(replies: list[_NodeReply] | tuple[_NodeReply, ...], what: str, others: str = "") -> DoneView:
    """What is told of the action; where a node is silent, with what the `others` say."""
    for item in replies:
        if item.outcome is not None and isinstance(item.outcome.body, DoneView):
            return item.outcome.body
    for item in replies:
        if item.outcome is not None and item.outcome.status == 409:
            raise RequestDenied(409, _text(item.outcome))
    if unknown := _names(item for item in replies if item.unknown):
        text = f"{unknown} did not confirm it: nobody knows whether the {what} was done; look at it, then try again"
        raise RequestDenied(502, text + others)
    if unreached := _names(item for item in replies if item.outcome is None):
        text = f"{unreached} could not be reached: the {what} was not done; try again when it can be, or it is gone"
        raise RequestDenied(502, text + others)
    for item in replies:
        if item.outcome is not None and item.outcome.status != 404:
            raise RequestDenied(
                502, f"{_names((item,))} refused ({item.outcome.status}) and did no {what}: {_text(item.outcome)}"
            )
    raise RequestDenied(
        404, f"no node holds this call: there was nothing to {what}; see what becomes of it: framehold lease CALL"
    )


def _names(replies: Iterable[_NodeReply]) -> str:
    found = ((str(printable(item.member.node)), item.why) for item in islice(replies, 5))
    return ", ".join(f"{node} ({why})" if why else node for node, why in found)


def _text(outcome: ActionResponse) -> str:
    return outcome.body.error if isinstance(outcome.body, ErrorView) else outcome.body.done
