"""Where this node's memory and its loop's time go, for whoever asks.

The law: what can't be measured is estimated, and said to be. A process's memory is what it took before its first call,
what its frames weigh, and the rest; a frame weighs what was learned (`memory`). Without a limit nothing is learned:
then the frames share all that was added. Nothing is kept for it but by the sampler, which runs only for who asks.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter

from framehold_core.call import Phase
from framehold_router.api import about_profile as about
from framehold_router.api.fields import printable

from . import memory
from .attached import Attached
from .listing import PORTION
from .names import OTHER
from .sampler import Sampler
from .stacks import IDLE, authors

TOOLS, HOT = 50, 10
"""How many tools, and how many functions, are told by name."""
_PARKED = Phase.PARKED


class Profile:
    """What one node tells of where its memory and time go."""

    def __init__(self, attached: Attached) -> None:
        self._attached, self._runtime = attached, attached.runtime
        self.sampler = Sampler(lambda: authors(attached.handlers.asking()))
        self._keeper: asyncio.Task[None] | None = None

    async def view(self) -> about.Profile:
        """As it stands now. Frames are gone over in portions: others want the loop."""
        if self._keeper is None or self._keeper.done():
            self._keeper = self._runtime.tasks.spawn(self._keep())
        loop = self._loop()
        parked, running = await self._frames()
        held = _memory(self._runtime.eviction.start, self._runtime.eviction.footprint, self._runtime.table.frames)
        return about.Profile(
            node_id=self._runtime.heartbeat.lease.node,
            memory=held,
            tools=_tools(parked, running, held),
            loop=loop,
            sessions=self._attached.sessions(),
        )

    async def _keep(self) -> None:
        """End the sampler when the node does, which cancels this."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.sampler.close()

    def _loop(self) -> about.LoopView:
        seen, metrics = self.sampler.ask(), self._attached.metrics
        lags = None if metrics is None else metrics.lags
        return about.LoopView(
            seconds=seen.seconds,
            samples=seen.samples,
            busy=min(1.0, max(0.0, 1 - seen.parts[IDLE])) if seen.parts else 0.0,
            lag_p50=None if lags is None else lags.quantile(0.5),
            lag_p99=None if lags is None else lags.quantile(0.99),
            lag_max=None if lags is None else lags.quantile(1.0),
            parts=tuple(about.LoopPart(name=name, share=min(1.0, share)) for name, share in seen.parts.items()),
            hot=tuple(about.HotView(where=where, share=min(1.0, share)) for where, share in seen.hot[:HOT]),
        )

    async def _frames(self) -> tuple[Counter[str], Counter[str]]:
        """How many frames are parked, and how many run, by tool."""
        parked, running = Counter[str](), Counter[str]()
        slots = iter(self._runtime.table)
        while portion := tuple(itertools.islice(slots, PORTION)):
            held = [slot for slot in portion if slot.frame is not None]
            parked.update(slot.tool for slot in held if slot.call.phase is _PARKED)
            running.update(slot.tool for slot in held if slot.call.phase is not _PARKED)
            await asyncio.sleep(0)
        return parked, running


def _memory(start: int | None, footprint: memory.Footprint | None, frames: int) -> about.MemoryView | None:
    """What the process holds, part by part."""
    resident = memory.resident()
    if resident is None or start is None:
        return None
    first = min(start, resident)
    added = resident - first
    in_frames = 0
    if frames:
        in_frames = added if footprint is None else min(added, round(footprint.weight * frames))
    parts = [about.MemoryPart(name="at start", bytes=first)]
    if frames:
        parts.append(about.MemoryPart(name="frames", bytes=in_frames, count=frames, estimated=True))
    if added > in_frames:
        parts.append(about.MemoryPart(name="other", bytes=added - in_frames, estimated=in_frames > 0))
    return about.MemoryView(
        resident=resident,
        limit=None if footprint is None else footprint.limit,
        start=start,
        high=None if footprint is None else int(footprint.high),
        parts=tuple(parts),
    )


def _tools(parked: Counter[str], running: Counter[str], held: about.MemoryView | None) -> tuple[about.ToolView, ...]:
    """Frames by tool, most first; what is beyond TOOLS as one."""
    frames = parked + running
    part = next((part for part in (held.parts if held else ()) if part.count), None)
    each = part.bytes / part.count if part is not None and part.count else None

    def view(name: str, count: int, waiting: int) -> about.ToolView:
        weight = None if each is None else round(each * count)
        return about.ToolView(tool=name, frames=count, bytes=weight, parked=waiting, running=count - waiting)

    ranked = sorted(frames.items(), key=lambda item: (-item[1], item[0]))
    told = [view(printable(name), count, parked[name]) for name, count in ranked[:TOOLS]]
    if rest := ranked[TOOLS:]:
        told.append(view(OTHER, sum(count for _, count in rest), sum(parked[name] for name, _ in rest)))
    return tuple(told)
