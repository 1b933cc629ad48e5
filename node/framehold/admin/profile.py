"""The profile of a node: what takes its memory.

The law: a value that can't be measured is left out; one that follows from a measured average is marked as estimated.
The memory of a process has three parts: the memory before its first call, that of its frames, and the rest. The frames
have a part only once `engine.memory` has measured the weight of a frame, which needs some hundred frames and a limit on
memory; until then their memory is in the rest.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from dataclasses import dataclass, field

from framehold_core.call import Phase
from framehold_fleet.models import profile as about
from framehold_fleet.models.fields import printable

from ..engine import memory
from ..hosts.attached import Attached
from ..telemetry.tool_labels import OTHER
from .lease_list import PORTION

TOOLS = 50
"""How many tools are listed by name."""
_PARKED = Phase.PARKED


@dataclass(slots=True)
class _Frames:
    """The frames of a node by tool: how many are parked and how many run, and the bytes of their journals."""

    parked: Counter[str] = field(default_factory=Counter)
    running: Counter[str] = field(default_factory=Counter)
    journals: Counter[str] = field(default_factory=Counter)


class ProfileReader:
    """Makes the profile of one node."""

    def __init__(self, attached: Attached) -> None:
        self._attached, self._runtime = attached, attached.runtime

    async def view(self) -> about.Profile:
        """The present profile. Frames are counted in portions, so that other tasks run in between."""
        frames = await self._frames()
        held = _memory(self._runtime.eviction.start, self._runtime.eviction.footprint, self._runtime.table.frames)
        return about.Profile(
            node_id=self._runtime.heartbeat.lease.node,
            memory=held,
            tools=_tools(frames, held),
            sessions=self._attached.sessions(),
        )

    async def _frames(self) -> _Frames:
        found = _Frames()
        slots = iter(self._runtime.table)
        while portion := tuple(itertools.islice(slots, PORTION)):
            for slot in portion:
                if slot.frame is not None:
                    (found.parked if slot.call.phase is _PARKED else found.running)[slot.tool] += 1
                    found.journals[slot.tool] += slot.size
            await asyncio.sleep(0)
        return found


def _memory(start: int | None, footprint: memory.Footprint | None, frames: int) -> about.MemoryView | None:
    """The memory of the process, part by part. None where it can't be measured."""
    resident = memory.resident()
    if resident is None or start is None:
        return None
    first = min(start, resident)
    added = resident - first
    measured = None if footprint is None else footprint.measured
    in_frames = 0 if measured is None else min(added, round(measured * frames))
    parts = [about.MemoryPart(name="at start", bytes=first)]
    if in_frames:
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


def _tools(by_tool: _Frames, held: about.MemoryView | None) -> tuple[about.ToolMemoryView, ...]:
    """The frames of each tool, the largest number first. The tools after the first `TOOLS` are one entry."""
    parked, journals = by_tool.parked, by_tool.journals
    frames = parked + by_tool.running
    part = next((part for part in (held.parts if held else ()) if part.count), None)
    each = part.bytes / part.count if part is not None and part.count else None

    def view(name: str, count: int, waiting: int, journal: int) -> about.ToolMemoryView:
        return about.ToolMemoryView(
            tool=name,
            frames=count,
            bytes=None if each is None else round(each * count),
            journal_bytes=journal,
            parked=waiting,
            running=count - waiting,
        )

    ranked = sorted(frames.items(), key=lambda item: (-item[1], item[0]))
    views = [view(printable(name), count, parked[name], journals[name]) for name, count in ranked[:TOOLS]]
    if rest := ranked[TOOLS:]:
        waiting, journal = (sum(counts[name] for name, _ in rest) for counts in (parked, journals))
        views.append(view(OTHER, sum(count for _, count in rest), waiting, journal))
    return tuple(views)
