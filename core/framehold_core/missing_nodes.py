"""Since when nodes that are named in tokens have had no lease, as far as this node has seen.

A token that names a later round than the record proves that the store went back to an older state. A live frame on the
token's node could heal the record. Whether that node lives is certain only after one lease TTL: by then it must have
registered with the store again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .ids import Boot, NodeId

_MAX_PAUSE = 120.0
"""Most seconds between two checks of one absence. After a longer pause the absence is counted from the later check;
clients that wait come back sooner."""
_MAX_NODES = 1000


class MissingNodes:
    """The nodes that were missed: for each the time of the first and of the last check. `ttl` is the lease TTL in
    seconds."""

    def __init__(self, ttl: float) -> None:
        self._ttl = ttl
        self._seen: dict[NodeId, tuple[float, float]] = {}

    def may_live(self, node: NodeId, boot: Boot, alive: Mapping[NodeId, Boot], is_doubtful: bool, now: float) -> bool:
        """Whether the life `boot` of a node may go on although no lease of it is there: something else stands in the
        place of its lease (`is_doubtful`), or the lease of an earlier life of the node. A node that lives replaces that
        with its next heartbeat. So it is gone one TTL after this was first seen, unless a look since then found it
        otherwise (docs/protocol.md, rule 5).

        Args:
            alive: the lives of the nodes that have leases.
            now: seconds on the node's clock.
        """
        if not is_doubtful and alive.get(node, boot) >= boot:
            self._seen.pop(node, None)
            return False
        return not self.is_certain(node, alive.keys() - {node}, now)

    def is_certain(self, node: NodeId, alive: Collection[str], now: float) -> bool:
        """Whether it is certain if `node` lives: it is among those `alive`, or it was first missed one TTL ago. A check
        that finds it missing is remembered. `now` is in seconds on the node's clock."""
        for name in [name for name in self._seen if name in alive]:
            del self._seen[name]
        if node in alive:
            return True
        first, last = self._seen.get(node, (now, now))
        if now - last > _MAX_PAUSE:
            first = now
        if len(self._seen) >= _MAX_NODES:
            self._seen.clear()
        self._seen[node] = (first, now)
        return now - first >= self._ttl
