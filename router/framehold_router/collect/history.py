"""The history of a fleet: the figures of each node, by slots of time, kept in the store.

    1. at the end of each slot of 10 seconds the router asks all nodes and keeps a sample, for an hour
    2. at the end of each minute it keeps a sample of that minute, made of those of its slots, for a day
    3. several routers keep samples of the same slots: the first one stays, so all routers show the same
    4. somebody looks: the router reads the samples that it has not yet read, and remembers them while somebody looks

The law: bounded. Each sample is bounded (`samples`), and ends by its TTL. One that the store did not take is known to
this router only. No call depends on any of it. To read many samples of a large fleet takes up to a second of CPU, so it
lets other work run in between.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence

from framehold_core.errors import StoreUnavailable
from framehold_fleet.models.history import Sample
from framehold_fleet.models.nodes import NodeView
from framehold_store.base import Store

from .samples import Sampler, of_several, packed, unpacked
from .tool_survey import ToolsSeen

logger = logging.getLogger(__name__)

STEP, COARSE = 10, 60
"""Seconds of a slot: of the last hour, and of the last day."""
KEPT = {STEP: 3600, COARSE: 86_400}
"""For how many seconds the samples of each step are kept."""
_LATE = 120
"""Seconds for which a sample may come later than its slot has ended."""
REMEMBERED = 600
"""Seconds for which samples that were read stay in memory after somebody looked."""
_AT_ONCE = 10
"""Samples that are unpacked before other work of the loop may run."""


class History:
    """The history of one fleet, as one router keeps and reads it. `nodes` and `tools` ask all nodes; `clock` gives
    seconds since 1970. Belongs to one event loop."""

    def __init__(
        self,
        store: Store,
        nodes: Callable[[], Awaitable[list[NodeView]]],
        tools: Callable[[], Awaitable[ToolsSeen]],
        clock: Callable[[], float],
    ) -> None:
        self._store, self._nodes, self._tools, self._clock = store, nodes, tools, clock
        self._sampler = Sampler()
        self._known: dict[int, dict[int, Sample | None]] = {STEP: {}, COARSE: {}}
        self._untaken: dict[int, dict[int, Sample]] = {STEP: {}, COARSE: {}}
        """Those that the store did not take."""
        self._looked = dict.fromkeys((STEP, COARSE), -math.inf)
        """When somebody looked last."""
        self._reading = asyncio.Lock()
        self._silent = False

    async def run(self) -> None:
        """Keep a sample of each slot until cancelled."""
        while True:
            now = self._clock()
            slot = int(now // STEP)
            await asyncio.sleep((slot + 1) * STEP - now)
            try:
                await self.keep(slot)
            except Exception:
                logger.exception("a bug in keeping the history of the fleet; the next sample is kept as usual")

    async def keep(self, slot: int) -> None:
        """Keep the sample of one slot that has just ended, and that of its minute if it was the last of it."""
        nodes, tools = await asyncio.gather(self._nodes(), self._tools())
        sample = self._sampler.sample(nodes, tools.nodes, self._clock())
        await self._keep(STEP, slot, sample)
        self._forget()
        if (slot + 1) * STEP % COARSE == 0:
            minute, of_minute = slot * STEP // COARSE, COARSE // STEP
            slots = range(slot + 1 - of_minute, slot + 1)
            async with self._reading:
                found = await self._read(STEP, slots)
            await self._keep(COARSE, minute, of_several([item for item in found if item is not None]))

    async def samples(self, step: int, slots: Sequence[int]) -> list[Sample | None]:
        """The samples of these slots in their order; None for each of which nobody has kept one. While the store does
        not answer, what was read stays."""
        self._looked[step] = self._clock()
        async with self._reading:
            return await self._read(step, slots)

    def _forget(self) -> None:
        """Drop what has ended, and what was read when nobody has looked for a while."""
        now = self._clock()
        for step, known in self._known.items():
            for slots in (known, self._untaken[step]):
                for slot in [slot for slot in slots if (slot + 1) * step < now - KEPT[step] - _LATE]:
                    del slots[slot]
            if now - self._looked[step] > REMEMBERED:
                known.clear()

    async def _read(self, step: int, slots: Sequence[int]) -> list[Sample | None]:
        known, untaken, now = self._known[step], self._untaken[step], self._clock()
        wanted = [slot for slot in slots if slot not in known and slot not in untaken]
        try:
            found = await self._store.samples(step, wanted) if wanted else ()
        except StoreUnavailable:
            found = ()
        for place, (slot, data) in enumerate(zip(wanted, found, strict=False), 1):
            sample = None if data is None else unpacked(data)
            # One that is missing may still come, until its slot ended some time ago.
            if sample is not None or (slot + 1) * step < now - _LATE:
                known[slot] = sample
            if place % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return [known.get(slot) or untaken.get(slot) for slot in slots]

    async def _keep(self, step: int, slot: int, sample: Sample) -> None:
        try:
            await self._store.keep_sample(step, slot, packed(sample), KEPT[step])
        except StoreUnavailable as error:
            if not self._silent:
                logger.warning("the history of the fleet is not kept, only this router knows it: %s", error)
            self._silent = True
            self._untaken[step][slot] = sample
        else:
            self._silent = False
