"""Since when nodes that tokens name have had no lease, as far as this node has looked.

A token beyond its record proves that the store went back. Whether the frame that could heal it lives, nobody knows
until its node had the time to register with that store again: one lease's life.
"""

from __future__ import annotations

from collections.abc import Collection

from framehold_core.ids import NodeId

_FORGOTTEN = 120.0
"""Seconds after which a look is too old to say anything of the next one: clients that wait come back sooner."""
_MOST = 1000


class Absences:
    """What the looks so far have shown."""

    def __init__(self, ttl: float) -> None:
        self._ttl = ttl
        self._seen: dict[NodeId, tuple[float, float]] = {}

    def sure(self, node: NodeId, alive: Collection[str], now: float) -> bool:
        """Whether a node is gone for good, if it is not among those `alive`: a lease's life after it was first missed.

        `now` is in seconds on the node's clock."""
        for name in [name for name in self._seen if name in alive]:
            del self._seen[name]
        if node in alive:
            return True
        first, last = self._seen.get(node, (now, now))
        if now - last > _FORGOTTEN:
            first = now
        if len(self._seen) >= _MOST:
            self._seen.clear()
        self._seen[node] = (first, now)
        return now - first >= self._ttl
