"""What is told of one node: where its memory goes, and its loop's time. The JSON of these models is a contract.

The law: no call, no user, no path of a file. A function is named by its module; its line is where it begins.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .about_nodes import NodeView
from .fields import Count, Lenient, Seconds, Text

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class MemoryPart(Lenient):
    """What some of it is taken by."""

    name: Text
    """`at start`, `frames` or `other`."""
    bytes: Count
    count: Count | None = None
    """Of how many."""
    estimated: bool = False
    """Whether it is reckoned from what a frame weighs."""


class MemoryView(Lenient):
    """A process's memory, in bytes."""

    resident: Count
    limit: Count | None = None
    start: Count
    """What it took before its first call."""
    high: Count | None = None
    """Above it frames are dropped."""
    parts: tuple[MemoryPart, ...] = ()
    """They sum up to `resident`."""


class ToolView(Lenient):
    """The frames of one tool. `other` stands for all that are not told by name."""

    tool: Text
    frames: Count
    bytes: Count | None = None
    """About what they weigh, if that is known: each as much as any."""
    parked: Count
    running: Count


class LoopPart(Lenient):
    """A part of the loop's time."""

    name: Text
    """`idle`, `handlers`, `Framehold`, `MCP SDK`, `JSON and pydantic`, `HTTP server`, `store` or `other`."""
    share: Share


class HotView(Lenient):
    """A function and its share of the busy time."""

    where: Text
    """`module.function:line`."""
    share: Share


class LoopView(Lenient):
    """What the event loop was busy with while somebody looked. Where nobody has yet there are no samples, and no
    parts: ask again after a second. The lag is the last minute's, null where nothing is counted."""

    seconds: Seconds
    """Over how long it was looked at: the last minute at most."""
    samples: Count
    busy: Share
    lag_p50: Seconds | None = None
    lag_p99: Seconds | None = None
    lag_max: Seconds | None = None
    parts: tuple[LoopPart, ...] = ()
    """They sum up to 1."""
    hot: tuple[HotView, ...] = ()


class Spent(Lenient):
    """Where a process's memory and time go."""

    memory: MemoryView | None = None
    """Null where the system doesn't say it."""
    tools: tuple[ToolView, ...] = ()
    """Most frames first, the rest as `other`."""
    loop: LoopView | None = None
    sessions: Count | None = None
    """Sessions of clients of earlier revisions; null where nobody knows."""


class Profile(Spent):
    """A node's answer to `GET /admin/profile`."""

    node_id: Text


class NodeDetailView(Spent):
    """One node. Of one of an older release there is no more than `node`."""

    node: NodeView
