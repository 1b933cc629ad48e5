"""The problems of a fleet that need an operator. This is the one place where they are found: the command line, the API
and the dashboard show this list.

The law: a state that ends without an operator is not listed. A call whose node is gone waits for its client, and a node
that drains was ordered to. What follows from a store that is full or silent is not listed beside it: a node that is
restarted because its lease ran out loses the frames which hold what the store lacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple
from urllib.parse import quote

from framehold_core.pauses import FRAMEHOLD

from ..collect.survey import UNREACHABLE
from ..fleet.membership import DRAINING, LIVE, STRANGE
from ..fleet.store_health import FULL, SILENT, StoreLook
from ..fleet.wrong_clock import LIMIT
from ..models.events import EventView, Kind
from ..models.nodes import DepartedView, FailingView, NodeView, PauseView
from ..models.problems import ProblemView, Severity
from .wording import STUCK, many, names, span

NEARLY_FULL = 0.8
"""The part of a limit from which on it is reported."""
_LATE_HEARTBEAT = 15.0
"""Seconds without a heartbeat that no usual FRAMEHOLD_LEASE_TTL explains. A node of this release says by itself that
its lease lapsed."""
_LATE_LOOP = 1.0
"""Seconds by which an event loop is late when it counts as standing."""
_STALL_HARMS, _STALL_SHOWN = 60.0, 600.0
"""Seconds after a stall for which users count as harmed by it, and for which it is reported: it will come again."""
_DIVERGED_SHOWN = 3600.0
"""Seconds for which a divergence is reported."""
FAILING_SHARE, FAILING_CALLS = 0.2, 5
"""A tool is reported if a larger share of its calls failed than this, and more than so many: as by the alert
FrameholdCallsFail."""
LAPSED, TAKEN = "lapsed", "lost"
"""States that a node reports of itself: its lease is not valid; another process has its name."""
_RUNBOOK = "docs/runbook.md#"
_KEEP_NODES = "do not restart nodes: their frames write again what the store lacks"


def _problem(
    severity: Severity, kind: str, text: str, do: str, link: str = "", node: str = "", tool: str = ""
) -> ProblemView:
    link = link or f"/dashboard/nodes/{quote(node, safe='')}"
    return ProblemView(severity=severity, kind=kind, node=node, tool=tool, text=text, next=do, link=link)


_harm, _risk = partial(_problem, Severity.HARM), partial(_problem, Severity.RISK)


class Seen(NamedTuple):
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

    @property
    def live(self) -> bool:
        """Whether a node takes new calls."""
        return any(node.state == LIVE for node in self.nodes)

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
        if not self.live and not self.nodes and all(gone.store in (FULL, SILENT) for gone in self.lost):
            words += [gone.store for gone in self.lost]
        return next((state for state in (FULL, SILENT) if state in words), self.store.state)


def of(seen: Seen) -> list[ProblemView]:
    """All problems of the fleet, those that harm users now first; empty if there are none."""
    found = [problem for rule in _RULES for problem in rule(seen)]
    return sorted(found, key=lambda problem: problem.severity is not Severity.HARM)


def texts(problems: Sequence[ProblemView]) -> list[str]:
    """Each problem as one sentence with what to do."""
    return [f"{problem.text}; {problem.next}" for problem in problems]


# ---- the whole fleet


def _store(seen: Seen) -> Iterator[ProblemView]:
    if seen.store_state == FULL:
        text = "the store is full: no node can write to it, and calls that ask are refused until it has room"
        text += _unheard(seen)
        do = f"give the store more memory, or delete what is not Framehold's; {_KEEP_NODES}"
        yield _harm("store_full", text, do, f"{_RUNBOOK}a-full-store")
    elif seen.store_state == SILENT:
        silent = [node.node_id for node in seen.nodes if node.store == SILENT]
        everybody = bool(silent) and len(silent) == len(seen.nodes)
        wait = "no node can write to it, rounds wait" if everybody else "rounds wait for it"
        whom = names(silent) or "the router"
        text = f"the store does not answer {whom}: {wait}, and what is known of the fleet may be old"
        text += _unheard(seen)
        yield _harm("store_silent", text, f"look at the store; {_KEEP_NODES}", f"{_RUNBOOK}frameholdstoreerrors")
    elif (use := seen.store.memory) is not None and use.used >= NEARLY_FULL * use.limit:
        text = f"the store uses {use.used / use.limit:.0%} of its memory; from 90% on new calls that ask are refused"
        do = "raise its maxmemory, or lower FRAMEHOLD_TOKEN_TTL"
        yield _risk("store_memory", text, do, f"{_RUNBOOK}a-full-store")


def _unheard(seen: Seen) -> str:
    """The nodes that live although the store does not hear of them; empty if there are none."""
    found = [node.node_id for node in seen.nodes if node.unheard]
    if not found:
        return ""
    return f" (not heard of by the store, and serving what needs no store: {names(found)})"


def _no_live_node(seen: Seen) -> Iterator[ProblemView]:
    if not seen.live and seen.store_state not in (FULL, SILENT):
        text = "no node is live: new calls are refused"
        yield _harm("no_live_node", text, "start one: framehold node TARGET", f"{_RUNBOOK}frameholdnolivenode")


def _stuck(seen: Seen) -> Iterator[ProblemView]:
    if seen.stuck:
        text = f"{many(seen.stuck, 'call is', 'calls are')} stuck: {STUCK}"
        do = "see framehold leases --state stuck, and mend the tool"
        yield _harm("calls_stuck", text, do, "/dashboard/leases?state=stuck")


def _diverged(seen: Seen) -> Iterator[ProblemView]:
    since = seen.at - _DIVERGED_SHOWN
    calls = {(event.call, event.tool) for event in seen.events if event.kind == Kind.DIVERGED and event.at >= since}
    for tool, count in sorted(Counter(tool for _, tool in calls).items()):
        text = (
            f"{many(count, 'call')} of {tool or 'a tool'} took another way than recorded within the last hour: "
            "its code has changed or is not deterministic, and the client gets an error"
        )
        do = "bring back the code that wrote the journal; the node's log names the two questions that differ"
        yield _harm("diverged", text, do, f"{_RUNBOOK}frameholdreplaydivergence", tool=tool)


def _paused(seen: Seen) -> Iterator[ProblemView]:
    for pause in seen.paused:
        who = "by itself" if pause.by == FRAMEHOLD else "by an operator"
        why = f" ({pause.why})" if pause.why else ""
        text = f"tool {pause.tool} is paused {who}{why}: new calls of it are refused, parked ones wait"
        do = f"when it is mended: framehold resume {pause.tool}"
        yield _harm("tool_paused", text, do, "docs/operating.md#pausing-a-tool", tool=pause.tool)


def _failing(seen: Seen) -> Iterator[ProblemView]:
    for tool in seen.failing:
        if tool.failed > FAILING_CALLS and tool.failed > FAILING_SHARE * tool.ended:
            text = (
                f"{tool.failed / tool.ended:.0%} of the calls of {tool.tool} failed in the last ten minutes: "
                f"{tool.failed:,} of {tool.ended:,}"
            )
            do = f"see framehold calls --failed --tool {tool.tool}: it names the lines that raise"
            link = f"/dashboard/calls?failed=true&tool={quote(tool.tool, safe='')}"
            yield _harm("calls_fail", text, do, link, tool=tool.tool)


def _lost(seen: Seen) -> Iterator[ProblemView]:
    if not seen.live and seen.store_state in (FULL, SILENT):
        return
    for gone in seen.lost:
        had = "" if gone.calls is None else f" ({gone.calls:,} were parked there)"
        text = (
            f"{gone.node_id} was lost {span(seen.at - gone.detected)} ago and is not back: its calls{had} go on "
            "elsewhere, those of tools that are not marked re-entrant are lost"
        )
        do = "start it again if nobody else does, and look in its log why it ended"
        yield _risk("node_lost", text, do, "/dashboard/failovers", gone.node_id)


# ---- single nodes


def _of_nodes(seen: Seen) -> Iterator[ProblemView]:
    for node in seen.nodes:
        for rule in (_state, _loop, _frames, _memory, _clock):
            yield from rule(node, seen)


def _state(node: NodeView, seen: Seen) -> Iterator[ProblemView]:
    name, age = node.node_id, node.heartbeat_age
    at = node.address or "no address"
    if node.state == UNREACHABLE:
        text = (
            f"{name} doesn't answer at {at}, and its counts are its last heartbeat's; if it is dead, its calls go on "
            "elsewhere once its node lease has run out (those of tools that are not marked are lost)"
        )
        yield _harm(
            "node_unreachable", text, "look at its log: it is dead, cut off, or its event loop stands", node=name
        )
    elif node.state == STRANGE:
        do = "start it with the FRAMEHOLD_KEYS of this fleet"
        yield _risk("node_other_keys", f"{name} has other keys: nothing is sent to it", do, node=name)
    elif node.state == LAPSED:
        if seen.store_state not in (FULL, SILENT):
            text = f"{name} could not renew its node lease: its calls wait until the store has confirmed them"
            yield _harm("node_lapsed", text, "look whether it reaches the store", node=name)
    elif node.state == TAKEN:
        text = f"another process runs under the name of {name}: no call runs on this one"
        yield _harm("node_name_taken", text, "give each node a FRAMEHOLD_NODE_ID of its own", node=name)
    elif node.state not in (LIVE, DRAINING):
        yield _risk("node_state", f"{name} says that it is {node.state}", "look at its log", node=name)
    elif age is not None and age >= _LATE_HEARTBEAT and seen.store_state not in (FULL, SILENT):
        text = f"{name} has not renewed its node lease for {span(age)}: its calls wait once the lease has run out"
        yield _risk("heartbeat_late", text, "look whether it reaches the store", node=name)


def _loop(node: NodeView, seen: Seen) -> Iterator[ProblemView]:
    stall, lag = node.last_stall, node.loop_lag_p99
    if stall is not None and (ago := seen.at - stall.at - stall.seconds) <= _STALL_SHOWN:
        place = f"tool {stall.tool!r}, at {stall.where}" if stall.tool else stall.where
        cause = f"in {place}" if place else "while its process was stopped or got no processor"
        text = (
            f"{node.node_id}: its event loop stood for {stall.seconds:.1f} s {cause}, {span(ago)} ago; "
            "all its calls waited, and its heartbeat"
        )
        do = "await there, or run it in a thread (asyncio.to_thread)" if place else "look at its machine"
        say = _harm if ago <= _STALL_HARMS else _risk
        yield say("loop_stood", text, do, node=node.node_id, tool=stall.tool or "")
    elif lag is not None and lag >= _LATE_LOOP:
        text = f"{node.node_id}: its event loop was late by {lag:.1f} s in the last minute, and all its calls waited"
        yield _harm("loop_stood", text, "a handler blocks it: see the node's page", node=node.node_id)


def _frames(node: NodeView, seen: Seen) -> Iterator[ProblemView]:
    frames, limit = node.frames, node.max_parked
    if frames is not None and limit and frames >= NEARLY_FULL * limit:
        text = (
            f"{node.node_id} holds {frames:,} frames, {frames / limit:.0%} of its limit; beyond it frames are evicted, "
            "or new calls are refused"
        )
        yield _risk("frames_near_limit", text, "add nodes, or raise FRAMEHOLD_MAX_PARKED", node=node.node_id)


def _memory(node: NodeView, seen: Seen) -> Iterator[ProblemView]:
    used, limit = node.rss, node.memory_limit
    if used is not None and limit and used >= NEARLY_FULL * limit:
        text = (
            f"{node.node_id} uses {used / limit:.0%} of its memory limit; from 90 % on frames are evicted, or new "
            "calls are refused"
        )
        yield _risk("memory_near_limit", text, "add nodes, or give it more memory", node=node.node_id)


def _clock(node: NodeView, seen: Seen) -> Iterator[ProblemView]:
    offset = node.clock_offset
    if offset is not None and abs(offset) >= LIMIT:
        off = f"{span(abs(offset))} {'behind' if offset > 0 else 'ahead of'}"
        text = (
            f"{node.node_id}: the wall clock of its machine is {off} the store's; its calls go on by the store's clock"
        )
        yield _risk("clock_wrong", text, "run a time service (NTP) there, or on the store's machine", node=node.node_id)


_RULES: tuple[Callable[[Seen], Iterator[ProblemView]], ...] = (
    _store,
    _no_live_node,
    _stuck,
    _diverged,
    _paused,
    _failing,
    _of_nodes,
    _lost,
)
"""Each rule finds the problems of one kind. A new kind of problem is a new rule here, and a row in
docs/operating.md."""
