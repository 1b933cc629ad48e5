"""Remembers the nodes of calls that responses have shown to be on another node than the ring says.

The law: the memory is bounded, and never needed for correctness. If a call is forgotten, its next round is relayed once
between nodes.
"""

from __future__ import annotations

from collections import OrderedDict

from framehold_core.ids import CallId, NodeId

MAX_CALLS = 50_000


class Owners:
    """The nodes of at most `limit` calls; the call that was unused for the longest time is dropped first."""

    def __init__(self, limit: int = MAX_CALLS) -> None:
        self._limit = limit
        self._nodes: OrderedDict[CallId, NodeId] = OrderedDict()

    def get(self, call: CallId) -> NodeId | None:
        """The node that is remembered for a call, or None."""
        node = self._nodes.get(call)
        if node is not None:
            self._nodes.move_to_end(call)
        return node

    def learn(self, call: CallId, node: NodeId) -> None:
        """Remember that `node` served a call."""
        self._nodes[call] = node
        self._nodes.move_to_end(call)
        if len(self._nodes) > self._limit:
            self._nodes.popitem(last=False)

    def forget(self, call: CallId) -> None:
        """Drop a call: the ring gives its node."""
        self._nodes.pop(call, None)

    def __len__(self) -> int:
        return len(self._nodes)
