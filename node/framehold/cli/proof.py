"""`framehold call --prove`: shows of a call that has ended that one node carried it, and that nothing of it ran twice.

    1. the call has its result
    2. the router tells the steps that its record kept: one node, one epoch, one end
    3. its last round is sent again, as a client does that lost the response: it gets the same result
    4. the record's steps are the same as before

The law: whenever a handler is entered again its epoch rises (PROTOCOL rule 3). So the first epoch at the end, also
after a round came twice, says that it was entered once, and that each of its effects ran no more often than it is
written there. Whatever can't be told is no proof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from mcp import Client
from mcp.types import CallToolResult

from framehold_core import token
from framehold_core.errors import ConfigError
from framehold_router.api.about_calls import CallView
from framehold_router.api.about_nodes import NodesView

from .api import Api, Refused

_UNAUTHORIZED = 401


class Unproved(Exception):
    """Why it isn't so, or can't be told."""


def ready(api: Api) -> None:
    """See that the router can be asked, before anything is called.

    Raises:
        ConfigError: it can't.
    """
    try:
        api.get("nodes", NodesView)
    except Refused as error:
        if error.status != _UNAUTHORIZED:
            raise
        text = f"{api.url} wants its admin token for --prove; nothing was called; set FRAMEHOLD_ADMIN_TOKEN"
        raise ConfigError(text) from None


async def proved(client: Client, api: Api, tool: str, last: Mapping[str, Any] | None, result: CallToolResult) -> str:
    """What was proved, in a sentence. `last`: the parameters of the call's last round, None where it had but one.

    Raises:
        Unproved: it was not.
    """
    if last is None:
        raise Unproved(f"{tool} asked nothing, so nothing of it was recorded; name a tool that asks")
    routed = token.parse(last["requestState"])
    if routed is None or routed.call is None:
        raise Unproved(f"calls of {tool} wait in their tokens (strategy replay), so no record tells where they ran")
    where = f"leases/{quote(routed.call, safe='')}"
    before = _read(api, where)
    try:
        again = await client.call_tool(
            tool, last.get("arguments"), input_responses=last.get("inputResponses"), request_state=last["requestState"]
        )
    except Exception as error:
        raise Unproved(f"its last round, sent again, came to no result: {error}") from None
    after = _read(api, where)
    if found := faults(before, after, same=_said(again) == _said(result)):
        raise Unproved("; ".join(found))
    return (
        f"proved: {_rounds(after)} rounds, all on {after.node_id}; the handler was entered once; the last round, sent "
        "again, got the same result, and nothing ran"
    )


def _read(api: Api, where: str) -> CallView:
    try:
        return api.get(where, CallView).view
    except ConfigError as error:
        raise Unproved(f"its record can't be read: {error}") from None


def faults(before: CallView, after: CallView, same: bool) -> Sequence[str]:
    """What speaks against it: in the record of a call that has ended, in that after its last round came again, and
    whether that got the `same` result."""
    nodes = list(dict.fromkeys([*(step.node_id for step in before.trail), before.node_id]))
    found = []
    if before.record != "done":
        found.append(f"its record says {before.record}, not done")
    if not before.trail:
        found.append("its steps are not kept")
    if len(nodes) > 1:
        found.append(f"it ran on {' and then on '.join(nodes)}")
    if before.epoch != 1:
        found.append(f"its epoch is {before.epoch}: its handler may have been entered more than once")
    if not same:
        found.append("its last round, sent again, got another result")
    if after.trail != before.trail or after.epoch != before.epoch:
        found.append("its last round, sent again, ran again")
    return found


def _rounds(view: CallView) -> int:
    """Each park ended one, and the end the last."""
    return sum(step.step in ("parked", "finished") for step in view.trail)


def _said(result: CallToolResult) -> dict[str, Any]:
    """What a result is, without what stands about it."""
    return result.model_dump(mode="json", exclude={"meta"})
