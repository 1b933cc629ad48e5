"""The door of a node: which requests may enter a handler, beside limits and drains.

A paused tool takes no new call, and its calls wait: their answers are not taken, and no handler is entered again
(docs/protocol.md, rule 27). What runs, runs to the end of its round.

A node that can't write to the store enters no new handler that needs it (docs/protocol.md, rule 6). Its own lease says
whether it can: a heartbeat is a write. Nor does it while the store is nearly full, or while the journals of the user
have as much there as they may: calls that exist go on. What never asks is served on, and so is strategy replay, which
needs no store.
"""

from __future__ import annotations

import asyncio
import contextlib
import math

from framehold_core import lease
from framehold_core.effects import Reason, Refusal
from framehold_core.errors import StoreFull
from framehold_core.pauses import Pause
from framehold_core.requests import Record
from framehold_fleet.models.nodes import OF_STORE

from ..heartbeat import Alone, Heartbeat
from ..ports import HandlerEntry
from ..table import CallTable
from .habits import Habits
from .pauses import Pauses
from .store_room import StoreRoom

LEASE_PATIENCE = 1.0
"""Seconds that a new call waits for a lease which has run out, while the store answers."""
_NO_STORE = (
    "{}, and this tool may ask or run an effect, which needs the store; nothing was started; send the same request "
    "again"
)
_UNHEARD = "the store did not take this node's last heartbeat"
_FULL = "the store is full, and did not take this node's last heartbeat"
_LAPSED = "this node has no valid lease: the store takes no heartbeat, or the lease lapsed"


class Door:
    """Decides which requests may enter a handler on one node, beside limits and drains."""

    def __init__(self, heartbeat: Heartbeat | Alone, pauses: Pauses, table: CallTable, store_room: StoreRoom) -> None:
        self._heartbeat, self.pauses, self._table, self.store_room = heartbeat, pauses, table, store_room
        self._renewed = asyncio.Event()
        """Set with the next acknowledged heartbeat."""
        self.habits = Habits()
        """What this process has seen of its tools."""

    def refusal(self, handler: HandlerEntry, begins: bool) -> Refusal | None:
        """The refusal of a request; None if it may go on. `begins` says whether it begins a call."""
        if (pause := self.pauses.known.get(handler.tool)) is not None:
            return Refusal(Reason.PAUSED if begins else Reason.WAITS, detail=pause.whose)
        if not begins:
            return None
        away, short = self._store_trouble(), self.store_room.trouble
        trouble, full = away or short, self._table.full_for(handler.principal)
        if (trouble is None and full is None) or not self._needs_store(handler):
            return None
        if full is not None:
            self._table.refused("FRAMEHOLD_MAX_JOURNAL_PER_PRINCIPAL", of_one=True)
            # A limit of one user: no other node is asked to take the call (docs/protocol.md, rule 9).
            return Refusal(Reason.UNAVAILABLE, detail=full)
        if away is None:
            self._table.refused(OF_STORE)
        return Refusal(Reason.NOT_TAKEN, detail=_NO_STORE.format(trouble))

    def has_store(self) -> bool:
        """Whether this node can write to the store, and the store has room."""
        return self._store_trouble() is None and self.store_room.trouble is None

    async def wait_for_lease(self, handler: HandlerEntry) -> None:
        """Wait up to LEASE_PATIENCE seconds for a lease that has run out though the store answers: the loop was late,
        or the machine slept, and the next heartbeat is due."""
        if self._store_trouble() == _LAPSED and self._needs_store(handler):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEASE_PATIENCE):
                    await self._renewed.wait()

    def paused(self, tool: str) -> Refusal | None:
        """The refusal of a new call of `tool` if that is paused, else None. It is for calls that need no store."""
        pause = self.pauses.known.get(tool)
        return None if pause is None else Refusal(Reason.PAUSED, detail=pause.whose)

    async def died(self, handler: HandlerEntry, record: Record) -> Pause | None:
        """The process that ran a call is gone; the pause of its tool, if the call must not be claimed.

        Raises:
            StoreUnavailable: the store did not answer.
        """
        return await self.pauses.died(handler.tool, record)

    def survived(self, handler: HandlerEntry) -> None:
        """A call whose process was gone has moved on here."""
        self.pauses.survived(handler.tool)

    async def open(self) -> None:
        """Learn which tools are paused, before the first call."""
        await self.pauses.read()
        await self.store_room.read()

    def renewed(self) -> None:
        """A heartbeat was acknowledged."""
        self._renewed.set()
        self._renewed = asyncio.Event()
        self.pauses.renewed()
        self.store_room.renewed()

    def _store_trouble(self) -> str | None:
        """Why this node can't write to the store, as far as its lease tells; None if it can."""
        if self._heartbeat.missing_from == math.inf:
            trouble = self._heartbeat.trouble
            return _FULL if isinstance(trouble, StoreFull) else (trouble.limit if trouble else "") or _UNHEARD
        return None if lease.is_open(self._heartbeat.lease, self._heartbeat.clock.now()) else _LAPSED

    def _needs_store(self, handler: HandlerEntry) -> bool:
        if handler.strategy == "replay":
            return False
        asks = handler.asks
        if asks:
            return True
        seen = self.habits.uses_store(handler.tool)
        return asks is None if seen is None else seen
