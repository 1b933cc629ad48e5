"""The problems of a fleet's nodes as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from framehold_fleet.members.membership import STRANGE
from framehold_fleet.members.store_health import OUT
from framehold_fleet.models.problems import ProblemView

from ..collect.identities import grouped
from ..collect.survey import UNREACHABLE
from .seen import RUNBOOK, FleetFacts, harm, risk
from .wording import many, names, span

_DEATHS, _DEATHS_WITHIN = 3, 600.0
"""A node is reported that died so often within so many seconds: it will die again."""
_OWN_NAMESPACE = "give each server a FRAMEHOLD_NAMESPACE of its own, and its routers too"


def no_live_node(seen: FleetFacts) -> Iterator[ProblemView]:
    # A node that does not answer this router may be live: its own problem says what is known of it.
    unknown = any(node.state == UNREACHABLE and node.address for node in seen.nodes)
    if not seen.live and not unknown and seen.store_state not in OUT:
        text = "no node is live: new calls are refused"
        yield harm("no_live_node", text, "start one: framehold node TARGET", f"{RUNBOOK}frameholdnolivenode")


def lost(seen: FleetFacts) -> Iterator[ProblemView]:
    if not seen.live and seen.store_state in OUT:
        return
    for gone in seen.lost:
        had = "" if gone.calls is None else f" ({gone.calls:,} were parked there)"
        ago = f"{span(seen.at - gone.detected)} ago"
        how = f"ran out {ago}" if gone.last_heartbeat is not None else f"was missed {ago}, and no router saw it run out"
        text = (
            f"the node lease of {gone.node_id} {how}, and it is not back: its calls{had} go on elsewhere, those of "
            "tools that are not marked re-entrant are lost"
        )
        do = (
            "see whether its process runs: if it does, it stands or is cut off (py-spy dump; look at what reads its "
            "log); if not, start it again, and look in its log why it ended"
        )
        yield risk("node_lost", text, do, "/dashboard/failovers", gone.node_id)


def routers_lost(seen: FleetFacts) -> Iterator[ProblemView]:
    for one in seen.routers:
        if one.state == "lost":
            ago = span(seen.at - one.heard)
            text = (
                f"router {one.name} has written nothing to the store for {ago}, and did not say that it ends: it died, "
                "or it is cut off from the store"
            )
            do = "start it again if nobody else does, and see that clients reach another router"
            yield risk("router_lost", text, do, f"{RUNBOOK}frameholdprocessdown")


def dying(seen: FleetFacts) -> Iterator[ProblemView]:
    """Nodes that die again and again, whether they are back or not. While the store is in trouble leases run out."""
    if seen.store_state in OUT:
        return
    found: dict[str, list[float]] = {}
    for end in seen.ends:
        if not end.left and end.detected > seen.at - _DEATHS_WITHIN:
            found.setdefault(end.node_id, []).append(end.detected)
    for node, times in sorted(found.items()):
        if len(times) >= _DEATHS:
            ago = span(seen.at - min(times))
            text = f"{node} died {len(times)} times in the last {ago}: each time its calls wait, unmarked ones are lost"
            do = "look in its log, and at its exit code, why it ends"
            yield harm("nodes_dying", text, do, f"{RUNBOOK}frameholdnodesdying", node)


def identity(seen: FleetFacts) -> Iterator[ProblemView]:
    """Two servers that look like one fleet, since they share a namespace of the store and its keys."""
    ours = [node for node in seen.nodes if node.state != STRANGE]
    servers = grouped((node.server, node.node_id) for node in ours)
    if len(servers) > 1:
        who = "; ".join(f"{name} ({names(nodes)})" for name, nodes in servers.items())
        text = (
            f"{many(len(servers), 'server')} share one namespace of the store: {who}; a call may reach a server that "
            "has no such tool, or another one of that name"
        )
        yield harm("servers_differ", text, _OWN_NAMESPACE, f"{RUNBOOK}frameholdserversdiffer")
        return
    lists = grouped((node.tools_digest, node.node_id) for node in ours)
    if len(lists) > 1 and seen.tools_steady:
        who = "; ".join(names(nodes) for nodes in lists.values())
        text = f"nodes have had different lists of tools for more than ten minutes, and no update goes on: {who}"
        do = f"finish the update; if they are two servers, {_OWN_NAMESPACE}"
        yield risk("tools_differ", text, do, f"{RUNBOOK}frameholdserversdiffer")
