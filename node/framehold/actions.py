"""What an operator does to one call: cancel it, or drop its frame.

The law: nothing is done by halves. While an effect or a write of the call is under way it is refused, and may be asked
for again. A cancelled call has ended for good: that is written like any outcome, so that a retry, on any node, hears it
and no handler is entered again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

import mcp_types as types
from mcp.shared.exceptions import MCPError

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.call import Phase, at_rest
from framehold_core.ids import CallId, prefix
from framehold_router.api.about_events import Kind

from .frames import Frame
from .invocation import Outcome
from .logs import about
from .runtime import Runtime
from .slots import Slot
from .watch import Watch

logger = logging.getLogger(__name__)

PATIENCE = 3.0
"""Seconds that the store may take until an operator hears that it has not answered yet."""
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


class Done(NamedTuple):
    """What an action came to: an HTTP status, and a sentence."""

    status: int
    text: str


class Actions(Watch):
    """Does it on one node."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._ending: dict[Slot, asyncio.Future[ev.Event]] = {}
        runtime.watches.add(self)

    def stepped(self, slot: Slot, was: Phase, event: ev.Event, effects: Sequence[fx.Effect]) -> None:
        """The end of a cancelled call was written, or was not."""
        if self._ending and slot.call.phase in _ENDED and (told := self._ending.get(slot)) and not told.done():
            told.set_result(event)

    async def cancel(self, call: CallId) -> Done:
        """End a call for good. 404 where it has no frame here, 409 while it can't be done."""
        slot, name = self._runtime.table.get(call), f"call {prefix(call)}"
        if slot is None or slot.frame is None:
            return self._not_here(call)
        if slot in self._ending:
            return Done(409, f"{name}: {_BUSY}")
        try:
            event = await self._stop(slot, slot.frame)
        finally:
            self._ending.pop(slot, None)
        done = Done(409, f"{name}: {_BUSY}") if event is None else _came_to(name, event)
        if done.status == 200:
            logger.warning("call %s of %r: an operator cancelled it", prefix(call), slot.tool, extra=about(slot))
            text = _UNWRITTEN if isinstance(event, ev.StoreDown) else _CANCELLED
            self._runtime.watches.happened(Kind.CANCELLED, text, slot)
        return done

    async def _stop(self, slot: Slot, frame: Frame) -> ev.Event | None:
        """What came of the write that ends a call; None where it was not begun."""
        told: asyncio.Future[ev.Event] = asyncio.get_running_loop().create_future()
        self._ending[slot] = told
        was = slot.call
        self._runtime.feed(slot, ev.Stop(_outcome(slot)))
        if slot.call is was:
            return None
        self._runtime.bury(frame)
        try:
            async with asyncio.timeout(PATIENCE):
                return await told
        except TimeoutError:
            return ev.StoreDown(False)

    def evict(self, call: CallId) -> Done:
        """Drop a call's frame: its next retry replays it. 404 where it has none here, 409 while it must keep it."""
        slot, name = self._runtime.table.get(call), f"call {prefix(call)}"
        if slot is None or slot.frame is None:
            return self._not_here(call)
        if not slot.call.reentrant:
            return Done(409, f"{name}: {_UNMARKED}")
        if slot.call.phase is not Phase.PARKED or not at_rest(slot.call):
            return Done(409, f"{name}: a round, {_BUSY}")
        self._runtime.feed(slot, ev.Evict("admin"))
        self._runtime.watches.happened(Kind.EVICTED, _EVICTED, slot)
        return Done(200, f"{name}: its frame was dropped; its client's next retry replays it")

    def _not_here(self, call: CallId) -> Done:
        if any(slot.call.id == call and slot.frame is not None for slot in self._runtime.table):
            return Done(409, f"call {prefix(call)}: {_CARRIED}")
        return Done(404, f"call {prefix(call)} {_ABSENT}")


def _came_to(name: str, event: ev.Event) -> Done:
    """What became of a call that was stopped, by the last that happened to it."""
    if isinstance(event, ev.Refused | ev.Retry):
        text = "another node runs it by now, or had it lost; the frame here was dropped; cancel the call where it runs"
        return Done(409, f"{name}: {text}")
    if isinstance(event, ev.StoreDown):
        text = "its end is written when the store answers again, unless another node has carried the call on by then"
        return Done(200, f"{name}: its handler was cancelled; {text}")
    return Done(200, f"{name} was cancelled; its client is told so, now or at its next retry, on any node")


def _outcome(slot: Slot) -> Outcome:
    """A cancelled call's outcome: a tool's own error result, the protocol's error elsewhere."""
    if slot.entrance.describe()["method"] == "tools/call":
        content: list[types.ContentBlock] = [types.TextContent(type="text", text=CANCELLED)]
        result = types.CallToolResult(content=content, is_error=True)
        return Outcome(result.model_dump(by_alias=True, mode="json", exclude_none=True))
    return Outcome(error=MCPError(types.INTERNAL_ERROR, CANCELLED, {"reason": "cancelled"}))


_ENDED = (Phase.IDLE, Phase.LOOKING, Phase.STRANDED)
_CANCELLED = "an operator cancelled the call: its handler was stopped, its client is told, and nobody enters it again"
_UNWRITTEN = (
    "an operator cancelled the call: its handler was stopped; the store has not answered yet, and until its end is "
    "written another node may carry it on"
)
_EVICTED = "an operator dropped the call's frame: its client's next retry replays it"
