"""What a store has lost, as the mark beside the paused tools shows (docs/protocol.md, rule 27).

A router reads the paused tools from time to time, as each node does with its heartbeat. So it knows them too: if the
store loses them while no node lives, the router writes them again, and says that they were lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from framehold_core.errors import StoreUnavailable
from framehold_core.pauses import Tools
from framehold_core.value import asdict
from framehold_store.base import Store

from ..models.events import EventKind, EventView, LogEntry
from ..models.nodes import LossView

_log = logging.getLogger(__name__)

LOSS_SHOWN = 3600.0
"""Seconds for which a loss of the store is reported."""
PAUSE = 5.0
"""Seconds between two reads of a router."""


def follow(last: LossView | None, found: Tools) -> LossView | None:
    """The last loss of the store after a read, with the pauses that this process has written again since."""
    if found.loss is None:
        return last
    if last is None or last.at != found.loss.at:
        last = LossView(**asdict(found.loss))
    return last.model_copy(update={"pauses": last.pauses + found.rewritten})


def told(loss: LossView, rewritten: int) -> str:
    """The event of a loss, for people; `rewritten` is how many pauses were written again at once."""
    return (
        f"the store {loss.how}; paused tools that were written again: {rewritten}. Nodes compare their frames with it, "
        "and write again what it lacks; what no live process has is gone"
    )


class Losses:
    """What one router has seen of losses of `store`. `on_entry` is called with each entry for the event log."""

    def __init__(self, store: Store, on_entry: Callable[[LogEntry], None]) -> None:
        self._store, self._on_entry = store, on_entry
        self.last: LossView | None = None

    async def run(self) -> None:
        """Read again and again, until cancelled."""
        while True:
            try:
                await self.look()
            except Exception:
                # Without this the task would end, and no loss would be noticed any more.
                _log.exception("a bug in reading the paused tools; what is known stands, the next read follows")
            await asyncio.sleep(PAUSE)

    async def look(self) -> None:
        """Read once. If the store does not answer, what is known stands."""
        try:
            found = await self._store.tools()
        except StoreUnavailable:
            return
        self.last = follow(self.last, found)
        if found.is_first and self.last is not None:
            text, at = told(self.last, found.rewritten), self.last.at
            _log.warning("%s", text)
            event = EventView(id=f"{EventKind.STORE_EMPTIED}:{at:.3f}", at=at, kind=EventKind.STORE_EMPTIED, text=text)
            self._on_entry(LogEntry(event=event))
