"""The problems of a fleet that need an operator. This package is the one place where they are found: the command line,
the API and the dashboard show this list.

The law: a state that ends without an operator is not listed. A call whose node is gone waits for its client, and a node
that drains was ordered to. A new kind of problem is a new rule, and a row in docs/operating.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from framehold_fleet.models.problems import ProblemView, Severity

from .of_fleet import dying, identity, lost, no_live_node, routers_lost
from .of_limits import descriptors, node_full, router_descriptors
from .of_nodes import nodes
from .of_store import clock, emptied, slow, store, unsaved
from .of_tools import diverged, failing, leaving, paused, stuck
from .seen import FleetFacts

_RULES: tuple[Callable[[FleetFacts], Iterator[ProblemView]], ...] = (
    store,
    slow,
    emptied,
    unsaved,
    clock,
    no_live_node,
    stuck,
    diverged,
    paused,
    failing,
    leaving,
    identity,
    dying,
    nodes,
    node_full,
    descriptors,
    router_descriptors,
    lost,
    routers_lost,
)
"""Each rule finds the problems of one kind, in the order in which they are shown."""


def of(seen: FleetFacts) -> list[ProblemView]:
    """All problems of the fleet, those that harm users now first; empty if there are none."""
    found = [problem for rule in _RULES for problem in rule(seen)]
    return sorted(found, key=lambda problem: problem.severity is not Severity.HARM)
