"""The models of a node's profile: the use of its memory. Their JSON is a contract.

The law: they hold no call, no user and no path of a file.
"""

from __future__ import annotations

from .fields import Count, Lenient, Text
from .nodes import NodeView


class MemoryPart(Lenient):
    """One part of the memory of a process."""

    name: Text
    """`at start`, `frames` or `other`."""
    bytes: Count
    count: Count | None = None
    """The number of frames in the part `frames`."""
    estimated: bool = False
    """Whether the bytes are estimated from the size of one frame."""


class MemoryView(Lenient):
    """A process's memory, in bytes."""

    resident: Count
    limit: Count | None = None
    start: Count
    """The memory that the process took before its first call."""
    high: Count | None = None
    """The limit above which frames are dropped."""
    parts: tuple[MemoryPart, ...] = ()
    """The parts add up to `resident`."""


class ToolMemoryView(Lenient):
    """The frames of one tool. The tool `other` stands for all tools that are not listed by name."""

    tool: Text
    frames: Count
    bytes: Count | None = None
    """The estimated size of the frames; null until the size of a frame was measured. Every frame counts as much as any
    other."""
    journal_bytes: Count
    """The size of the journals of its calls, as they are in the store."""
    parked: Count
    running: Count


class Spent(Lenient):
    """The use of memory of a process."""

    memory: MemoryView | None = None
    """Null if the system gives no figures."""
    tools: tuple[ToolMemoryView, ...] = ()
    """The tools with the most frames first, the rest as `other`."""
    sessions: Count | None = None
    """Sessions of clients of earlier protocol revisions; null if unknown."""


class Profile(Spent):
    """A node's answer to `GET /admin/profile`."""

    node_id: Text


class NodeDetailView(Spent):
    """One node and its profile."""

    node: NodeView
