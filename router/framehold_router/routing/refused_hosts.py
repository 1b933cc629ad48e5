"""Nodes that refuse the Host of what this router sends them: HTTP 421, the SDK's guard against DNS rebinding.

The law: a client chooses the Host that it sends, so one refusal says nothing about the node. A node is told as refusing
when it has refused `IN_A_ROW` requests and answered none between them: then it refuses the name by which clients know
the fleet. One request that it answers otherwise clears it.
"""

from __future__ import annotations

from collections.abc import Callable

from framehold_core.ids import NodeId

MISDIRECTED = 421
IN_A_ROW = 3
"""Requests that a node must have refused in a row."""
SHOWN = 60.0
"""Seconds for which the last of them counts."""


class RefusedHosts:
    """Counts refusals for each node. `clock` gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rows: dict[NodeId, tuple[int, float]] = {}
        """For each node that refused the last request: how many in a row, and when the last one was refused."""

    def answered(self, node: NodeId, status: int) -> None:
        """Take in the status of a node's response."""
        if status == MISDIRECTED:
            self._rows[node] = self._rows.get(node, (0, 0.0))[0] + 1, self._clock()
        elif self._rows:
            self._rows.pop(node, None)

    def now(self) -> dict[NodeId, int]:
        """The nodes that refuse all requests at present, with how many in a row."""
        since = self._clock() - SHOWN
        self._rows = {node: row for node, row in self._rows.items() if row[1] >= since}
        return {node: count for node, (count, _) in self._rows.items() if count >= IN_A_ROW}
