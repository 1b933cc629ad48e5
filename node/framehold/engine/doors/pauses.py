"""The paused tools, as this node knows them.

The store has them, for all nodes. A node reads them at its start and after each heartbeat, so a pause reaches all nodes
within a third of FRAMEHOLD_LEASE_TTL. While the store does not answer, what was read last stands.

A tool is paused by an operator, or by itself when its calls have ended too many processes (docs/protocol.md, rule 27).
Then the node that finds the last of these processes gone pauses it, before it would enter the handler again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from framehold_core.errors import StoreUnavailable
from framehold_core.pauses import OPERATOR, WINDOW, Pause, Tools, is_blamed
from framehold_core.requests import Record
from framehold_fleet.members import losses
from framehold_fleet.models.events import EventKind
from framehold_fleet.models.nodes import LossView
from framehold_store.base import Store

from ..shared import Shared

logger = logging.getLogger(__name__)

_BY_ITSELF = "its calls ended {} processes within {:g} minutes"
_NEXT = "new calls are refused, parked ones wait; when it is mended: framehold resume {}"


class Pauses:
    """The paused tools of one node. `limit` is how many processes the calls of a tool may end before it is paused by
    itself; 0: it never is. `lost` is called once for each loss of the store that is noticed."""

    def __init__(self, store: Store, shared: Shared, limit: int, lost: Callable[[], None]) -> None:
        self._store, self._tasks, self._observers, self._limit = store, shared.tasks, shared.observers, limit
        self._lost = lost
        self._clock, self._counts = shared.clock, shared.counts
        self._loss: LossView | None = None
        self._healed = self._healed_before_loss = 0
        self.known: Mapping[str, Pause] = {}
        """The paused tools by name, as last read."""
        self._suspected: frozenset[str] = frozenset()
        self._reading: asyncio.Task[None] | None = None
        self._changes = 0

    async def read(self) -> None:
        """Read the paused tools. If the store does not answer, what is known stands."""
        try:
            await self._read()
        except StoreUnavailable as error:
            logger.info("the paused tools were not read: %s", error)
        except Exception:
            # A node starts and serves without them.
            logger.exception("a bug in reading the paused tools; what is known stands, the next heartbeat reads them")

    async def _read(self) -> None:
        changes = self._changes
        found = await self._store.tools()
        self._look_for_loss(found)
        if changes == self._changes:
            self.known, self._suspected = {pause.tool: pause for pause in found.paused}, found.suspected

    def _look_for_loss(self, found: Tools) -> None:
        """Take in what a read says of a loss of the store. Frames may have been written again before it was noticed:
        those since the read before count."""
        before, self._healed = self._healed, self._counts["healed"]
        last, self._loss = self._loss, losses.follow(self._loss, found)
        if self._loss is not None and (last is None or last.at != self._loss.at):
            self._healed_before_loss = before
            self._lost()
            if found.is_first:
                self._report(EventKind.STORE_EMPTIED, losses.told(self._loss, found.rewritten))

    @property
    def loss(self) -> LossView | None:
        """The last loss of the store that anybody noticed, with what this node has written again since."""
        calls = self._counts["healed"] - self._healed_before_loss
        return None if self._loss is None else self._loss.model_copy(update={"calls": calls})

    def renewed(self) -> None:
        """A heartbeat was acknowledged: read the paused tools, unless that is under way."""
        if self._reading is None or self._reading.done():
            self._reading = self._tasks.spawn(self.read())

    async def pause(self, tool: str, why: str, operator: str) -> bool:
        """Pause a tool for an operator, as events name them; whether it was not paused before.

        Raises:
            StoreUnavailable: it is not known whether the store took it.
        """
        fresh, pause = tool not in self.known, Pause(tool, self._clock.time(), OPERATOR, why)
        await self._store.pause(pause)
        self._learn({**self.known, tool: pause})
        self._report(EventKind.PAUSED, f"tool {tool!r} is paused by {operator}{_because(why)}: {_NEXT.format(tool)}")
        return fresh

    async def resume(self, tool: str, operator: str) -> bool:
        """End the pause of a tool for an operator, as events name them; whether it was paused.

        Raises:
            StoreUnavailable: it is not known whether the store took it.
        """
        paused = await self._store.resume(tool)
        self._learn({name: pause for name, pause in self.known.items() if name != tool})
        if paused:
            self._report(EventKind.RESUMED, f"tool {tool!r} is resumed by {operator}: its calls go on")
        return paused

    async def died(self, tool: str, record: Record) -> Pause | None:
        """The process that ran a call of `tool` is gone, as `record` names it. Hold that against the tool where it
        counts; the pause of the tool, if it is paused now, so that the call must not be claimed.

        Raises:
            StoreUnavailable: the store did not answer.
        """
        if (known := self.known.get(tool)) is not None:
            return known
        if not self._limit or not is_blamed(record):
            return None
        why = _BY_ITSELF.format(self._limit, WINDOW / 60)
        pause, fresh = await self._store.died(tool, record.head.boot, self._limit, why)
        self._suspected |= {tool}
        if pause is not None:
            self._learn({**self.known, tool: pause})
        if fresh:
            self._report(EventKind.PAUSED, f"tool {tool!r} is paused by itself{_because(why)}: {_NEXT.format(tool)}")
        return pause

    def survived(self, tool: str) -> None:
        """A call of `tool` whose process was gone has moved on here: its handler does not end its process. What was
        held against the tool is forgotten."""
        if tool in self._suspected:
            self._suspected -= {tool}
            self._tasks.spawn(self._clear(tool))

    async def _clear(self, tool: str) -> None:
        try:
            await self._store.cleared(tool)
        except StoreUnavailable as error:
            logger.info("what is held against tool %r was not forgotten: %s", tool, error)

    def _learn(self, known: Mapping[str, Pause]) -> None:
        """Take over a change. A read that is under way may not have seen it, and is dropped."""
        self.known = known
        self._changes += 1

    def _report(self, kind: EventKind, text: str) -> None:
        logger.warning("%s", text)
        self._observers.happened(kind, text, None)


def _because(why: str) -> str:
    return f" ({why})" if why else ""
