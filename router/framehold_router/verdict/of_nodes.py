"""The problems of single nodes."""

from __future__ import annotations

from collections.abc import Iterator

from framehold_core.ids import NodeId
from framehold_fleet.members.membership import DRAINING, LIVE, STRANGE
from framehold_fleet.members.store_health import OUT
from framehold_fleet.members.wrong_clock import LIMIT
from framehold_fleet.models.nodes import NodeView
from framehold_fleet.models.problems import ProblemView

from ..collect.survey import UNREACHABLE
from .seen import NEARLY_FULL, FleetFacts, harm, risk
from .wording import many, span

_LATE_HEARTBEAT = 15.0
"""Seconds without a heartbeat that no usual FRAMEHOLD_LEASE_TTL explains. A node of this release says by itself that
its lease lapsed."""
_LATE_LOOP = 1.0
"""Seconds by which an event loop is late when it counts as standing."""
_STALL_HARMS, _STALL_SHOWN = 60.0, 600.0
"""Seconds after a stall for which users count as harmed by it, and for which it is reported: it will come again."""
_LOG_UNREAD = "nobody reads its log fast enough: look at what reads its stderr"
LAPSED, TAKEN = "lapsed", "lost"
"""States that a node reports of itself: its lease is not valid; another process has its name."""


def nodes(seen: FleetFacts) -> Iterator[ProblemView]:
    for node in seen.nodes:
        for rule in _RULES:
            yield from rule(node, seen)


def _state(node: NodeView, seen: FleetFacts) -> Iterator[ProblemView]:
    name, age = node.node_id, node.heartbeat_age
    if node.state == UNREACHABLE:
        yield _unreachable(node, seen)
    elif node.state == STRANGE:
        do = "give it the FRAMEHOLD_KEYS of this fleet; if it is of another one, a FRAMEHOLD_NAMESPACE of its own"
        yield risk("node_other_keys", f"{name} has other keys: nothing is sent to it", do, node=name)
    elif node.state == LAPSED:
        if seen.store_state not in OUT:
            text = f"{name} could not renew its node lease: its calls wait until the store has confirmed them"
            yield harm("node_lapsed", text, "look whether it reaches the store", node=name)
    elif node.state == TAKEN:
        text = f"another process runs under the name of {name}: no call runs on this one"
        yield harm("node_name_taken", text, "give each node a FRAMEHOLD_NODE_ID of its own", node=name)
    elif node.state not in (LIVE, DRAINING):
        yield risk("node_state", f"{name} says that it is {node.state}", "look at its log", node=name)
    elif age is not None and age >= _LATE_HEARTBEAT and seen.store_state not in OUT:
        text = f"{name} has not renewed its node lease for {span(age)}: its calls wait once the lease has run out"
        yield risk("heartbeat_late", text, "look whether it reaches the store", node=name)


def _unreachable(node: NodeView, seen: FleetFacts) -> ProblemView:
    """A node that does not answer this router; whether it lives is said by a heartbeat that is later than that."""
    name, beat = node.node_id, node.heartbeat_age
    seen_there = f": {node.unanswered}" if node.unanswered else ""
    text = f"{name} doesn't answer this router at {node.address or 'no address'}{seen_there}"
    if node.answer_status == 403:
        text += ": its process runs, and does not believe that this router asks, by its keys or by the store's clock"
        do = "look whether both have the same FRAMEHOLD_KEYS, and whether the store's clock was set"
        return harm("node_unreachable", text, do, node=name)
    if node.lives:
        at = "" if beat is None else f"; its last heartbeat, {beat:.1f} s ago, came after the first request that failed"
        text = f"{text}{at}: its process runs, and this router is cut off from it; its counts are that heartbeat's"
        do = "look at the network and the port between this router and it; restarting it ends what runs there"
        return harm("node_unreachable", text, do, node=name)
    old = seen.store_state in OUT or beat is None
    text += "" if old else f"; its last heartbeat was {beat:.1f} s ago, and none has come since"
    text += (
        ", and its counts are of that heartbeat; if it is dead, its calls go on elsewhere once its node lease has run "
        "out (those of tools that are not marked are lost)"
    )
    do = "look at its log: it is dead, cut off, or its event loop stands"
    return harm("node_unreachable", text, do, node=name)


def _loop(node: NodeView, seen: FleetFacts) -> Iterator[ProblemView]:
    stall, lag = node.last_stall, node.loop_lag_p99
    if stall is not None and (ago := seen.at - stall.at - stall.seconds) <= _STALL_SHOWN:
        tool = "" if stall.in_log else stall.tool or ""
        place = f"tool {tool!r}, at {stall.where}" if tool else stall.where
        cause = f"in {place}" if place else "while its process was stopped or got no processor"
        do = "await there, or run it in a thread (asyncio.to_thread)" if place else "look at its machine"
        if stall.in_log:
            cause, do = f"while it wrote its log, at {stall.where}", _LOG_UNREAD
        text = (
            f"{node.node_id}: its event loop stood for {stall.seconds:.1f} s {cause}, {span(ago)} ago; "
            "all its calls waited, and its heartbeat"
        )
        say = harm if ago <= _STALL_HARMS else risk
        yield say("loop_stood", text, do, node=node.node_id, tool=tool)
    elif lag is not None and lag >= _LATE_LOOP:
        text = f"{node.node_id}: its event loop was late by {lag:.1f} s in the last minute, and all its calls waited"
        yield harm("loop_stood", text, "a handler blocks it: see the node's page", node=node.node_id)


def _frames(node: NodeView, seen: FleetFacts) -> Iterator[ProblemView]:
    frames, limit = node.frames, node.max_parked
    if frames is not None and limit and frames >= NEARLY_FULL * limit:
        text = (
            f"{node.node_id} holds {frames:,} frames, {frames / limit:.0%} of its limit; beyond it frames are evicted, "
            "or new calls are refused"
        )
        yield risk("frames_near_limit", text, "add nodes, or raise FRAMEHOLD_MAX_PARKED", node=node.node_id)


def _memory(node: NodeView, seen: FleetFacts) -> Iterator[ProblemView]:
    used, limit = node.rss, node.memory_limit
    if used is not None and limit and used >= NEARLY_FULL * limit:
        text = (
            f"{node.node_id} uses {used / limit:.0%} of its memory limit; from 90 % on frames are evicted, or new "
            "calls are refused"
        )
        yield risk("memory_near_limit", text, "add nodes, or give it more memory", node=node.node_id)


def _clock(node: NodeView, seen: FleetFacts) -> Iterator[ProblemView]:
    offset = node.clock_offset
    if offset is not None and abs(offset) >= LIMIT and seen.store_offset is None:
        off = f"{span(abs(offset))} {'behind' if offset > 0 else 'ahead of'}"
        text = (
            f"{node.node_id}: the wall clock of its machine is {off} the store's; its calls go on by the store's clock"
        )
        yield risk("clock_wrong", text, "run a time service (NTP) there, or on the store's machine", node=node.node_id)


def _hosts(node: NodeView, seen: FleetFacts) -> Iterator[ProblemView]:
    if times := seen.refused_hosts.get(NodeId(node.node_id)):
        text = (
            f"{node.node_id} refuses the Host of what this router sends it (HTTP 421): it refused the last "
            f"{many(times, 'request')}"
        )
        do = "name the host that clients use in its FRAMEHOLD_ALLOWED_HOSTS; the router's log has it"
        yield risk("host_refused", text, do, node=node.node_id)


_RULES = (_state, _loop, _hosts, _frames, _memory, _clock)
"""Each rule finds the problems of one kind of one node."""
