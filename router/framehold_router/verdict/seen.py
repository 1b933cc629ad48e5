"""What a verdict on a fleet is made from, and the two kinds of problems."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote

from framehold_core.ids import NodeId
from framehold_fleet.members.membership import LIVE
from framehold_fleet.members.store_health import OUT, StoreLook
from framehold_fleet.members.wrong_clock import LIMIT
from framehold_fleet.models.events import EndView, EventView
from framehold_fleet.models.nodes import DepartedView, FailingView, LossView, NodeView, PauseView, RefusedView
from framehold_fleet.models.problems import ProblemView, Severity
from framehold_fleet.models.routers import RouterView
from framehold_fleet.telemetry.descriptors import Descriptors

RUNBOOK = "docs/runbook.md#"
NEARLY_FULL = 0.8
"""The part of a limit from which on it is reported."""

_ALIKE = 5.0
"""Seconds by which clocks that agree may seem to differ: each is compared with the store's at another moment."""
_REFUSALS_SHOWN = 60.0
"""Seconds for which a refusal is reported."""


def _problem(
    severity: Severity, kind: str, text: str, do: str, link: str = "", node: str = "", tool: str = ""
) -> ProblemView:
    link = link or f"/dashboard/nodes/{quote(node, safe='')}"
    return ProblemView(severity=severity, kind=kind, node=node, tool=tool, text=text, next=do, link=link)


harm, risk = partial(_problem, Severity.HARM), partial(_problem, Severity.RISK)


class FleetFacts(NamedTuple):
    """What a verdict is made from: the time (seconds since 1970), the nodes that have leases, the nodes that departed
    in the last hour and are not back, the latest events (the newest first), the number of stuck calls, the store, the
    tools that are paused, and those that failed lately."""

    at: float
    nodes: Sequence[NodeView]
    departed: Sequence[DepartedView]
    events: Sequence[EventView]
    stuck: int
    store: StoreLook
    paused: Sequence[PauseView] = ()
    failing: Sequence[FailingView] = ()
    ends: Sequence[EndView] = ()
    """The ends of lives of nodes that the event log has."""
    loss: LossView | None = None
    """The last loss of the store that this router knows of."""
    tools_steady: bool = False
    """Whether the nodes of each list of tools have been the same for longer than a rolling update takes."""

    own_descriptors: tuple[Descriptors, float] = (Descriptors(), math.inf)
    """Those of this router, and how many seconds ago it had none left."""

    def refused(self, node: NodeView) -> list[RefusedView]:
        """The limits for which a node refused new calls within the last minute."""
        return [met for met in node.refused if self.at - met.at <= _REFUSALS_SHOWN]

    routers: Sequence[RouterView] = ()
    refused_hosts: Mapping[NodeId, int] = MappingProxyType({})
    """Nodes that refuse the Host of all that this router sends them, with how many requests in a row."""
    own_offset: float = 0.0
    """Seconds that the wall clock of this router's machine lacks to the store's."""

    @property
    def live(self) -> bool:
        """Whether a node takes new calls."""
        return any(node.state == LIVE for node in self.nodes)

    @property
    def store_offset(self) -> float | None:
        """Seconds that the store's clock is ahead, where it is the wrong one: all nodes, two or more, and this router
        are off by the same."""
        offsets = [node.clock_offset for node in self.nodes if node.clock_offset is not None]
        every = [self.own_offset, *offsets]
        alike = len(offsets) >= 2 and max(every) - min(every) <= _ALIKE
        return self.own_offset if alike and min(map(abs, every)) >= LIMIT else None

    @property
    def lost(self) -> list[DepartedView]:
        """The nodes whose leases ran out, and which are not back; each once, by its newest end."""
        newest = {gone.node_id: gone for gone in reversed(self.departed)}
        return [gone for gone in newest.values() if gone.how == "lost"]

    @property
    def store_state(self) -> str:
        """The worst that is known of the store. The last word of a node that is gone counts only if no node is live:
        then all leases may have run out because no node could renew its lease."""
        words = [self.store.state, *(node.store for node in self.nodes)]
        if not self.live and not self.nodes and all(gone.store in OUT for gone in self.lost):
            words += [gone.store for gone in self.lost]
        return next((state for state in OUT if state in words), self.store.state)
