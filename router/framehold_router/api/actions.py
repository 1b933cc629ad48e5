"""Has nodes do what an operator wants: drain, cancel, evict.

The law: an action on a call is done by the node that holds it, and by no other. It is sent to each node once at most;
where an answer is missing nobody knows whether it was done, and the refusal says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from framehold_core.ids import NodeId, prefix

from ..membership import Member
from .about_nodes import DoneView, ErrorView
from .ask import Outcome, Unanswered
from .call import named, owner_of, read
from .fields import printable
from .sources import Asked, Refused, Sources

_log = logging.getLogger(__name__)


class _Said(NamedTuple):
    """What one node made of an action; `unknown` where that can't be known."""

    member: Member
    outcome: Outcome | None = None
    unknown: bool = False


async def drain(sources: Sources, asked: Asked) -> DoneView:
    """`POST nodes/{node_id}/drain`."""
    name = asked.path["node_id"]
    member = sources.fleet().members.get(NodeId(name))
    if member is None:
        raise Refused(404, "no node of this name has a lease: nothing was done; see `nodes` for those that have")
    said = await _act(sources, member, "drain", {})
    _log.info("an operator had node %.80r drained: %s", name, _status(said))
    return _result((said,), "drain")


async def cancel(sources: Sources, asked: Asked) -> DoneView:
    """`POST leases/{call_id}/cancel`."""
    return await _on_call(sources, asked, "cancel")


async def evict(sources: Sources, asked: Asked) -> DoneView:
    """`POST leases/{call_id}/evict`."""
    return await _on_call(sources, asked, "evict")


async def _on_call(sources: Sources, asked: Asked, what: str) -> DoneView:
    call = named(asked)
    try:
        owner = owner_of(sources, await read(sources, call))
    except Refused:
        # Without the store nobody knows the owner. The nodes know what they hold.
        owner = None
    body = {"call_id": str(call)}
    said: list[_Said] = []
    if owner is not None:
        said.append(await _act(sources, owner, what, body))
    if all(_knows_nothing(item) for item in said):
        others = [member for member in sources.fleet().members.values() if member is not owner and member.address]
        said += await asyncio.gather(*(_act(sources, member, what, body) for member in others))
    _log.info("an operator wanted to %s call %s: %s", what, prefix(call), ", ".join(map(_status, said)) or "no node")
    return _result(said, what)


async def _act(sources: Sources, member: Member, what: str, body: dict[str, str]) -> _Said:
    try:
        return _Said(member, await sources.asker.act(member, f"/admin/{what}", body))
    except Unanswered as error:
        return _Said(member, unknown=error.sent)


def _knows_nothing(said: _Said) -> bool:
    """Whether another node may have the call: this one doesn't hold it."""
    return said.outcome is not None and said.outcome.status == 404


def _status(said: _Said) -> str:
    return "no answer" if said.outcome is None else str(said.outcome.status)


def _result(said: list[_Said] | tuple[_Said, ...], what: str) -> DoneView:
    for item in said:
        if item.outcome is not None and isinstance(item.outcome.said, DoneView):
            return item.outcome.said
    for item in said:
        if item.outcome is not None and item.outcome.status == 409:
            raise Refused(409, _text(item.outcome))
    if unknown := _names(item for item in said if item.unknown):
        raise Refused(
            502, f"{unknown} did not answer: nobody knows whether the {what} was done; look at it, then try again"
        )
    if unreached := _names(item for item in said if item.outcome is None):
        text = f"{unreached} could not be reached: the {what} was not done; try again when it is, or it is gone"
        raise Refused(502, text)
    for item in said:
        if item.outcome is not None and item.outcome.status != 404:
            raise Refused(
                502, f"{_names((item,))} refused ({item.outcome.status}) and did no {what}: {_text(item.outcome)}"
            )
    raise Refused(
        404, f"no node holds this call: there was nothing to {what}; see what becomes of it: framehold lease CALL"
    )


def _names(said: Iterable[_Said]) -> str:
    return ", ".join(str(printable(item.member.node)) for item in islice(said, 5))


def _text(outcome: Outcome) -> str:
    return outcome.said.error if isinstance(outcome.said, ErrorView) else outcome.said.done
