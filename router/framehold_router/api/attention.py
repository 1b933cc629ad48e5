"""The problems of a fleet that need an operator, one sentence each: what is wrong, what follows from it, what to do.

The law: a state that ends without an operator is not listed. A call whose node is gone waits for its client, and a node
that drains was ordered to.
"""

from __future__ import annotations

from collections.abc import Sequence

from framehold_core.pauses import FRAMEHOLD

from ..fleet.membership import DRAINING, LIVE, STRANGE
from ..models.events import EventView, Kind
from ..models.nodes import NodeView, OverviewView, PauseView
from .survey import UNREACHABLE
from .wording import many, span

_SILENT = 15.0
"""Seconds without a heartbeat that no usual FRAMEHOLD_LEASE_TTL explains."""
_WHY = {
    UNREACHABLE: "doesn't answer at {address}, and its counts are its last heartbeat's; if it is dead, its calls go on "
    "elsewhere once its node lease has run out (those of tools that are not marked are lost): look at its log",
    STRANGE: "has other keys: nothing is sent to it; start it with the FRAMEHOLD_KEYS of this fleet",
    "lapsed": "could not renew its node lease: its calls wait until the store has confirmed them; look whether it "
    "reaches the store",
}


def of(overview: OverviewView, nodes: Sequence[NodeView]) -> list[str]:
    """All problems of the fleet; empty if there are none."""
    found = of_nodes(nodes)
    if not any(one.state == LIVE for one in nodes):
        found.insert(0, "no node is live: new calls are refused; start one: framehold node TARGET")
    if overview.stuck:
        calls = many(overview.stuck, "call is", "calls are")
        found.append(f"{calls} stuck: {STUCK}; see framehold leases --state stuck, and mend the tool")
    return [*found, *map(_paused, overview.paused), *silent(overview.events)]


STUCK = "too many nodes died of the same round, so none enters it again, and its client is told so"
ORPHANED = (
    "their nodes are gone; each goes on elsewhere when its client comes back, and is told that it is lost where its "
    "tool is not marked re-entrant"
)


def _paused(pause: PauseView) -> str:
    """What is wrong with a paused tool, and how its pause ends."""
    who = "by itself" if pause.by == FRAMEHOLD else "by an operator"
    why = f" ({pause.why})" if pause.why else ""
    return (
        f"tool {pause.tool} is paused {who}{why}: new calls of it are refused, parked ones wait; when it is mended: "
        f"framehold resume {pause.tool}"
    )


def of_nodes(nodes: Sequence[NodeView]) -> list[str]:
    """The problems of single nodes."""
    return [text for one in nodes if (text := _node(one))]


def _node(one: NodeView) -> str:
    if one.state in (LIVE, DRAINING):
        age = one.heartbeat_age
        if age is None or age < _SILENT:
            return ""
        problem = f"has not renewed its node lease for {span(age)}; what is told of the fleet may be as old"
        return f"{one.node_id} {problem}: look whether the store is reached"
    why = _WHY.get(one.state, "says that it is {state}: look at its log")
    return f"{one.node_id} {why.format(address=one.address or 'no address', state=one.state)}"


_STORE_EVENTS = (Kind.STORE_SILENT, Kind.STORE_BACK, Kind.NODE_LOST, Kind.NODE_LEFT)
"""The last of these events of a node says whether it misses the store; a node that is gone does not."""


def silent(events: Sequence[EventView]) -> list[str]:
    """One sentence that names the nodes which miss the store now, or nothing. `events` has the newest first."""
    last: dict[str, EventView] = {}
    for event in events:
        if event.kind in _STORE_EVENTS:
            last.setdefault(event.node_id, event)
    gone = sorted(name or "the router" for name, event in last.items() if event.kind == Kind.STORE_SILENT)
    text = "the store does not answer, rounds wait for it, and what is told of the fleet may be old: look at the store"
    return [f"{', '.join(gone)}: {text}"] if gone else []
