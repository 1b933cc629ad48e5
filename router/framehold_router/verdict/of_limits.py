"""The problems of limits that are met, or nearly met."""

from __future__ import annotations

import math
from collections.abc import Iterator

from framehold_fleet.models.nodes import OF_STORE
from framehold_fleet.models.problems import ProblemView
from framehold_fleet.telemetry.descriptors import Descriptors

from .seen import NEARLY_FULL, RUNBOOK, FleetFacts, harm, risk
from .wording import span

_SPENT_HARMS = 60.0
"""Seconds after a router had no descriptor for which users count as harmed by it."""
_REFUSED = f"{RUNBOOK}frameholdnodenearlyfull"
_RAISE_IT = (
    "raise its limit: LimitNOFILE= of a systemd unit, ulimit -n in a shell, or the container runtime's limit (nofile)"
)


def descriptors(seen: FleetFacts) -> Iterator[ProblemView]:
    for node in seen.nodes:
        found, name = Descriptors(node.descriptors, node.descriptors_limit), node.node_id
        yield from _descriptors("descriptors", name, found, node=name)


def router_descriptors(seen: FleetFacts) -> Iterator[ProblemView]:
    """The router that answers can say so of itself only once it has some again, or over a connection that it had.
    Others say it in the store, over the connection that they have to it."""
    yield from _descriptors("router_descriptors", "the router that answers", *seen.own_descriptors)
    for one in seen.routers:
        if one.state == "live" and not one.answers:
            found = Descriptors(one.descriptors, one.descriptors_limit)
            yield from _descriptors("router_descriptors", f"the router {one.name}", found)


def _descriptors(
    kind: str, who: str, found: Descriptors, ago: float = math.inf, node: str = ""
) -> Iterator[ProblemView]:
    used, limit = found
    if used is None or not limit:
        return
    link = f"{RUNBOOK}out-of-descriptors"
    if found.are_spent:
        text = f"{who} has all {limit:,} descriptors open that it may: it can take no connection and make none"
        yield harm(kind, text, _RAISE_IT, link, node)
    elif ago <= _SPENT_HARMS:
        text = f"{who} had all {limit:,} descriptors open {span(ago)} ago: it took no connection and made none"
        yield harm(kind, text, _RAISE_IT, link, node)
    elif used >= NEARLY_FULL * limit:
        text = (
            f"{who} has {used:,} of {limit:,} descriptors open, {used / limit:.0%}; at the limit it can take no "
            "connection and make none"
        )
        yield risk(kind, text, _RAISE_IT, link, node)


def node_full(seen: FleetFacts) -> Iterator[ProblemView]:
    """Nodes that refused new calls within the last minute. What they refused for the store is its own problem."""
    for node in seen.nodes:
        for met in seen.refused(node):
            if met.limit == OF_STORE:
                continue
            last, name = f"the last one {span(seen.at - met.at)} ago, {met.count:,} since its start", node.node_id
            if met.of_one:
                text = f"{name} refused new calls of a user who has all that {met.limit} grants to one: {last}"
                yield risk("node_full", text, f"raise {met.limit} if users need more", _REFUSED, name)
            else:
                text = (
                    f"{name} refused new calls, for {met.limit} is met: {last}; routers send them to nodes that have "
                    "room"
                )
                yield harm("node_full", text, f"raise {met.limit} there, or add nodes", _REFUSED, name)
