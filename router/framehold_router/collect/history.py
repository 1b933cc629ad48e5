"""The history of a fleet: the figures of each node, by slots of time, kept in the store.

    1. at the end of each slot of 10 seconds the router asks all nodes and keeps a sample, for an hour
    2. at the end of each minute it keeps a sample of that minute, made of those of its slots, for a day
    3. several routers keep samples of the same slots: the first one stays, so all routers show the same
    4. somebody looks: the router reads the samples that it has not yet read

The law: bounded. Each sample is bounded (`samples`), and ends by its TTL. One that the store did not take is known to
this router only. No call depends on any of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from framehold_core.errors import StoreUnavailable
from framehold_store.base import Store

from ..models.history import Sample
from ..models.nodes import NodeView
from .samples import Sampler, of_several, packed, unpacked
from .tool_survey import ToolsSeen

logger = logging.getLogger(__name__)

STEP, COARSE = 10, 60
"""Seconds of a slot: of the last hour, and of the last day."""
KEPT = {STEP: 3600, COARSE: 86_400}
"""For how many seconds the samples of each step are kept."""
_LATE = 120
"""Seconds for which a sample may come later than its slot has ended."""


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
        if (slot + 1) * STEP % COARSE == 0:
            minute, of_minute = slot * STEP // COARSE, COARSE // STEP
            slots = range(slot + 1 - of_minute, slot + 1)
            found = await self._read(STEP, slots)
            await self._keep(COARSE, minute, of_several([item for item in found if item is not None]))

    async def samples(self, step: int, slots: Sequence[int]) -> list[Sample | None]:
        """The samples of these slots in their order; None for each that nobody has kept. While the store does not
        answer, what was read stays."""
        async with self._reading:
            return await self._read(step, slots)

    async def _read(self, step: int, slots: Sequence[int]) -> list[Sample | None]:
        known, now = self._known[step], self._clock()
        for slot in [slot for slot in known if (slot + 1) * step < now - KEPT[step] - _LATE]:
            del known[slot]
        wanted = [slot for slot in slots if slot not in known]
        try:
            found = await self._store.samples(step, wanted) if wanted else ()
        except StoreUnavailable:
            found = ()
        for slot, data in zip(wanted, found, strict=False):
            sample = None if data is None else unpacked(data)
            # One that is missing may still come, until its slot ended some time ago.
            if sample is not None or (slot + 1) * step < now - _LATE:
                known[slot] = sample
        return [known.get(slot) for slot in slots]

    async def _keep(self, step: int, slot: int, sample: Sample) -> None:
        try:
            await self._store.keep_sample(step, slot, packed(sample), KEPT[step])
        except StoreUnavailable as error:
            if not self._silent:
                logger.warning("the history of the fleet is not kept, only this router knows it: %s", error)
            self._silent = True
            self._known[step][slot] = sample
        else:
            self._silent = False
