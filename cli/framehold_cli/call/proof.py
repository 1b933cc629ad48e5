"""`framehold call --prove`: shows that one node ran a finished call, and that no part of the call ran twice.

    1. the call has its result
    2. the call's record is read from the router: its steps have one node, one epoch and one end
    3. the last round is sent again, like the retry of a client that lost the response. It must get the same result
    4. the record is read again. Its steps must be the same as in step 2

The law: each time a handler is entered again the epoch of its call rises (docs/protocol.md, rule 3). So if the record
still has epoch 1 after the last round was sent twice, the handler was entered once, and each effect ran only as often
as the handler's code runs it in one pass. If a fact can't be read, there is no proof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from mcp import Client

from framehold_core import token
from framehold_core.errors import ConfigError
from framehold_fleet.models.calls import CallView
from framehold_fleet.models.nodes import NodesView

from ..client.api import ApiClient, ApiRefused
from .target import CallTarget, Result

_UNAUTHORIZED = 401


class CallUnproved(Exception):
    """There is no proof. The message says why."""


def ready(api: ApiClient) -> None:
    """Check that the router's API can be read, before the tool is called.

    Raises:
        ConfigError: no router answers, the admin token is missing, or the router does not prove that it has it.
    """
    try:
        api.get("nodes", NodesView)
    except ApiRefused as error:
        if error.status != _UNAUTHORIZED or api.has_token:
            raise
        do = "give --admin-token, or --api and FRAMEHOLD_ADMIN_TOKEN"
        raise ConfigError(f"{api.url} wants its admin token for --prove; nothing was called; {do}") from None


async def proved(
    client: Client, api: ApiClient, target: CallTarget, last: Mapping[str, Any] | None, result: Result
) -> str:
    """Prove a call of `target` that gave `result`; return the sentence to print.

    `last`: the parameters of the call's last round; None if the call had one round only.

    Raises:
        Unproved: there is no proof.
    """
    if last is None:
        raise CallUnproved(f"{target.name} asked nothing, so nothing of it was recorded; name one that asks")
    routed = token.parse(last["requestState"])
    if routed is None or routed.call is None:
        raise CallUnproved(
            f"calls of {target.name} wait in their tokens (strategy replay), so no record tells where they ran"
        )
    where = f"leases/{quote(routed.call, safe='')}"
    before = _read(api, where)
    try:
        again = await target.send(client, last.get("arguments") or {}, last)
    except Exception as error:
        raise CallUnproved(f"its last round, sent again, came to no result: {error}") from None
    after = _read(api, where)
    if found := faults(before, after, same=_content(again) == _content(result)):
        raise CallUnproved("; ".join(found))
    return (
        f"proved: {_rounds(after)} rounds, all on {after.node_id}; the handler was entered once; the last round, sent "
        "again, got the same result, and nothing ran"
    )


def _read(api: ApiClient, where: str) -> CallView:
    try:
        return api.get(where, CallView).view
    except ConfigError as error:
        raise CallUnproved(f"its record can't be read: {error}") from None


def faults(before: CallView, after: CallView, same: bool) -> Sequence[str]:
    """The reasons against a proof, in words; empty for a proof.

    `before` and `after`: the call's record before and after its last round was sent again. `same`: whether that round
    got the same result."""
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
    """The number of rounds: each park ended a round, and the finish ended the last."""
    return sum(step.step in ("parked", "finished") for step in view.trail)


def _content(result: Result) -> dict[str, Any]:
    """A result as JSON, without its metadata."""
    return result.model_dump(mode="json", exclude={"meta"})
