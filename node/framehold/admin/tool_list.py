"""The tools of a node, for operators: what is counted of each, and the calls of each that are parked now.

The law: it does not block the event loop. The calls are read in portions, and other tasks run between two portions.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from itertools import islice

from framehold_core.call import Phase
from framehold_core.value import asdict
from framehold_fleet.models.fields import printable
from framehold_fleet.models.nodes import PauseView
from framehold_fleet.models.tools import HolderView, ToolsStatus, ToolStatus
from framehold_fleet.telemetry.bounds import EXPIRY
from framehold_fleet.telemetry.histogram import Tally

from ..engine.runtime import Runtime
from ..telemetry.metrics import CallMetrics, Tool
from ..telemetry.tool_labels import MAX_NAMES, OTHER, ToolLabels
from .lease_list import PORTION

_PARKED = Phase.PARKED
MAX_HOLDERS = 20
"""How many users are listed."""
MAX_TOOLS = MAX_NAMES + 2
"""How many tools are listed: those that are labels, all resources together, and `other`."""

MAX_PAUSES = 200
"""How many paused tools are listed."""


class _Now:
    """The parked calls of one tool."""

    __slots__ = ("expiring", "journal", "parked", "since")

    def __init__(self) -> None:
        self.parked = self.journal = 0
        self.since = float("inf")
        self.expiring = Tally(EXPIRY)


async def tools(runtime: Runtime, labels: ToolLabels, metrics: CallMetrics | None) -> ToolsStatus:
    """Each tool that the node counts, or that has parked calls here. Without metrics only the latter."""
    counted = {} if metrics is None else dict(metrics.named_tools())
    now = await _parked(runtime, labels)
    held, at = runtime.heartbeat.lease, runtime.clock.now()
    return ToolsStatus(
        node_id=held.node,
        boot=held.boot,
        tools=tuple(
            _status(name, counted.get(name), now.get(name, _Now()), at) for name in sorted({*counted, *now})[:MAX_TOOLS]
        ),
        paused=pause_views(runtime),
        holders=tuple(
            HolderView(who=runtime.peers.trust.principal(name), calls=calls)
            for name, calls in runtime.table.holders(MAX_HOLDERS)
        ),
        over_limit=runtime.table.over_limit,
    )


def pause_views(runtime: Runtime) -> tuple[PauseView, ...]:
    """The paused tools that the node knows, in the order of their names, at most MAX_PAUSES: on all nodes the same."""
    known = runtime.door.pauses.known
    return tuple(PauseView(**asdict(known[name])) for name in sorted(known)[:MAX_PAUSES])


async def _parked(runtime: Runtime, labels: ToolLabels) -> dict[str, _Now]:
    """The parked calls by tool. A name that is no label goes with `other`: a client may have chosen it."""
    found, slots, at = defaultdict[str, _Now](_Now), iter(runtime.table), runtime.clock.now()
    while portion := list(islice(slots, PORTION)):
        for slot in portion:
            call = slot.call
            if call.phase is _PARKED:
                tool = found[slot.tool if labels.known(slot.tool, asks=True) else OTHER]
                tool.parked += 1
                tool.journal += slot.size
                tool.since = min(tool.since, call.expires - call.ttl)
                tool.expiring.observe(call.expires - at)
        await asyncio.sleep(0)
    return found


def _status(name: str, tool: Tool | None, now: _Now, at: float) -> ToolStatus:
    counts = {} if tool is None else _counts(tool)
    return ToolStatus(
        tool=str(printable(name)),
        parked=now.parked,
        oldest=max(0.0, at - now.since) if now.parked else None,
        journal=now.journal,
        expiring=tuple(now.expiring.counts) if now.parked else (),
        **counts,
    )


def _counts(tool: Tool) -> dict[str, int | tuple[int, ...]]:
    ends: dict[str, int] = {name: tool.ends[name] for name in ("asked", "ended", "failed", "refused")}
    return {
        **ends,
        "replays": tool.replays,
        "diverged": tool.diverged,
        "took": tuple(tool.seconds.counts),
        "thought": tuple(tool.parked.counts),
    }
