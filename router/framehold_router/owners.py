"""Calls that live elsewhere than the ring says, as far as responses have told.

The law: bounded, and never needed. A call that is forgotten here costs its next round one relay between nodes.
"""

from __future__ import annotations

from collections import OrderedDict

from framehold_core.ids import CallId, NodeId

LIMIT = 50_000


class Owners:
    """The node of each of the last `limit` such calls; the one that was unused for longest is dropped first."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._nodes: OrderedDict[CallId, NodeId] = OrderedDict()

    def get(self, call: CallId) -> NodeId | None:
        """The node that was learned for a call."""
        node = self._nodes.get(call)
        if node is not None:
            self._nodes.move_to_end(call)
        return node

    def learn(self, call: CallId, node: NodeId) -> None:
        """Remember where a call was served."""
        self._nodes[call] = node
        self._nodes.move_to_end(call)
        if len(self._nodes) > self._limit:
            self._nodes.popitem(last=False)

    def forget(self, call: CallId) -> None:
        """The ring is right about this call."""
        self._nodes.pop(call, None)

    def __len__(self) -> int:
        return len(self._nodes)
