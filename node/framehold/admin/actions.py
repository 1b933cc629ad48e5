"""What an operator does to one call: cancel it, or drop its frame.

The law: an action is done completely or not at all. While an effect or a write of the call is under way, the action is
refused, and the operator may try again. A cancelled call has ended for good: its end is written like any outcome. So a
retry gets this outcome on any node, and no handler is entered again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

import mcp_types as types
from mcp.shared.exceptions import MCPError

from framehold_core import events as ev
from framehold_core.call import Phase, may_be_dropped
from framehold_core.ending import How
from framehold_core.ids import CallId, prefix
from framehold_fleet.models.events import EventKind

from ..engine.runtime import Runtime
from ..engine.slot import Slot
from ..sdk.invocation import HandlerOutcome
from ..sdk.replies import REASON

logger = logging.getLogger(__name__)

PATIENCE = 3.0
"""Seconds that the store may take to write the end of a call. After that the operator gets the reply that the store has
not answered yet."""
CANCELLED = (
    "An operator cancelled this call. Its handler was stopped where it stood; what it had done by then is done, and it "
    "is not entered again. Start a new call if that is safe."
)
_BUSY = "an effect or a write of it is under way; nothing was done; try again in a moment"
_UNMARKED = (
    "its handler is not marked @framehold.reentrant, so its journal can't rebuild its frame; nothing was done; cancel "
    "the call if it must go"
)
_CARRIED = (
    "its client keeps it, in its token (strategy replay), and may send that again to any node; nothing was done; the "
    "round that runs here comes to its end by itself"
)
_ABSENT = (
    "has no frame on this node; nothing was done; the list of leases says which node has one, and a call without a "
    "frame continues from its journal when its client comes back"
)


class ActionResult(NamedTuple):
    """The reply to an operator: an HTTP status, and a sentence that says what was done or why nothing was done."""

    status: int
    text: str


class Actions:
    """Cancels calls of one node, and drops their frames."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def cancel(self, call: CallId, operator: str) -> ActionResult:
        """End a call for good. `operator` is who orders it, as events have it. Status 404: the call has no frame on
        this node. Status 409: nothing was done; an effect or a write of the call is under way, or another node runs
        it."""
        slot, name = self._runtime.table.get(call), f"call {prefix(call)}"
        if slot is None or slot.frame is None:
            return self._not_here(call)
        stopping = self._runtime.stop(slot, _outcome(slot))
        if stopping is None:
            return ActionResult(409, f"{name}: {_BUSY}")
        event = await _within_patience(stopping)
        done = _cancel_reply(name, event)
        if done.status == 200:
            logger.warning("call %s of %r: an operator cancelled it", prefix(call), slot.tool, extra=slot.log_fields)
            text = _UNWRITTEN if isinstance(event, ev.StoreDown) else _CANCELLED
            self._runtime.observers.happened(EventKind.CANCELLED, f"{operator} {text}", slot)
        return done

    def evict(self, call: CallId, operator: str) -> ActionResult:
        """Drop the frame of a call; the call's next retry rebuilds it. `operator` is who orders it, as events have it.
        Status 404: the call has no frame on this node. Status 409: nothing was done; the call needs its frame now, or
        its handler is not re-entrant."""
        slot, name = self._runtime.table.get(call), f"call {prefix(call)}"
        if slot is None or slot.frame is None:
            return self._not_here(call)
        if not slot.call.reentrant:
            return ActionResult(409, f"{name}: {_UNMARKED}")
        if slot.call.phase is not Phase.PARKED or not may_be_dropped(slot.call):
            return ActionResult(409, f"{name}: a round, {_BUSY}")
        self._runtime.feed(slot, ev.Evict("admin"))
        self._runtime.observers.happened(EventKind.EVICTED, f"{operator} {_EVICTED}", slot)
        return ActionResult(200, f"{name}: its frame was dropped; its client's next retry replays it")

    def _not_here(self, call: CallId) -> ActionResult:
        if any(slot.call.id == call and slot.frame is not None for slot in self._runtime.table):
            return ActionResult(409, f"call {prefix(call)}: {_CARRIED}")
        return ActionResult(404, f"call {prefix(call)} {_ABSENT}")


async def _within_patience(stopping: asyncio.Future[ev.Event]) -> ev.Event:
    """The event that ended a call; `StoreDown` if the store does not answer for `PATIENCE` seconds."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await stopping
    except TimeoutError:
        return ev.StoreDown(False)


def _cancel_reply(name: str, event: ev.Event) -> ActionResult:
    """The reply to an operator who cancelled a call. `event` is the one that ended the call on this node."""
    if isinstance(event, ev.WriteRefused | ev.Retry):
        text = "another node runs it by now, or had it lost; the frame here was dropped; cancel the call where it runs"
        return ActionResult(409, f"{name}: {text}")
    if isinstance(event, ev.StoreDown):
        text = "its end is written when the store answers again, unless another node has carried the call on by then"
        return ActionResult(200, f"{name}: its handler was cancelled; {text}")
    return ActionResult(200, f"{name} was cancelled; its client is told so, now or at its next retry, on any node")


def _outcome(slot: Slot) -> HandlerOutcome:
    """The outcome of a cancelled call: an error result for a tool, the protocol's error for a prompt or a resource."""
    if slot.handler.describe()["method"] == "tools/call":
        content: list[types.ContentBlock] = [types.TextContent(type="text", text=CANCELLED)]
        result = types.CallToolResult(content=content, is_error=True, _meta={REASON: How.CANCELLED.value})
        return HandlerOutcome(result.model_dump(by_alias=True, mode="json", exclude_none=True))
    return HandlerOutcome(error=MCPError(types.INTERNAL_ERROR, CANCELLED, {"reason": How.CANCELLED.value}))


_CANCELLED = "cancelled the call: its handler was stopped, its client is told, and nobody enters it again"
_UNWRITTEN = (
    "cancelled the call: its handler was stopped; the store has not answered yet, and until its end is "
    "written another node may carry it on"
)
_EVICTED = "dropped the call's frame: its client's next retry replays it"
