"""The problems of a fleet's nodes as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from ..collect.survey import UNREACHABLE
from ..fleet.store_health import FULL, SILENT
from ..models.problems import ProblemView
from .seen import RUNBOOK, Seen, harm, risk
from .wording import span


def no_live_node(seen: Seen) -> Iterator[ProblemView]:
    # A node that does not answer this router may be live: its own problem says what is known of it.
    unknown = any(node.state == UNREACHABLE and node.address for node in seen.nodes)
    if not seen.live and not unknown and seen.store_state not in (FULL, SILENT):
        text = "no node is live: new calls are refused"
        yield harm("no_live_node", text, "start one: framehold node TARGET", f"{RUNBOOK}frameholdnolivenode")


def lost(seen: Seen) -> Iterator[ProblemView]:
    if not seen.live and seen.store_state in (FULL, SILENT):
        return
    for gone in seen.lost:
        had = "" if gone.calls is None else f" ({gone.calls:,} were parked there)"
        text = (
            f"{gone.node_id} was lost {span(seen.at - gone.detected)} ago and is not back: its calls{had} go on "
            "elsewhere, those of tools that are not marked re-entrant are lost"
        )
        do = "start it again if nobody else does, and look in its log why it ended"
        yield risk("node_lost", text, do, "/dashboard/failovers", gone.node_id)
