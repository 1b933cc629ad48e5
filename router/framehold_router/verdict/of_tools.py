"""The problems of single tools and their calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from urllib.parse import quote

from framehold_core.pauses import FRAMEHOLD
from framehold_fleet.members.store_health import OUT
from framehold_fleet.models.events import EventKind
from framehold_fleet.models.problems import ProblemView

from .seen import RUNBOOK, FleetFacts, harm, risk
from .wording import STUCK, many

_DIVERGED_SHOWN = 3600.0
"""Seconds for which a divergence is reported."""
FAILING_SHARE, FAILING_CALLS = 0.2, 5
"""A tool is reported if a larger share of its calls failed than this, and more than so many: as by the alert
FrameholdCallsFail."""
LEFT_SHARE, LEFT_ROUNDS = 0.2, 20
"""It is reported if clients left a larger share of the last rounds than this, and there were at least so many rounds:
as by the alert FrameholdClientsLeave."""


def stuck(seen: FleetFacts) -> Iterator[ProblemView]:
    if seen.stuck:
        text = f"{many(seen.stuck, 'call is', 'calls are')} stuck: {STUCK}"
        do = "see framehold leases --state stuck, and mend the tool"
        yield harm("calls_stuck", text, do, "/dashboard/leases?state=stuck")


def diverged(seen: FleetFacts) -> Iterator[ProblemView]:
    since = seen.at - _DIVERGED_SHOWN
    calls = {
        (event.call, event.tool) for event in seen.events if event.kind == EventKind.DIVERGED and event.at >= since
    }
    for tool, count in sorted(Counter(tool for _, tool in calls).items()):
        text = (
            f"{many(count, 'call')} of {tool or 'a tool'} took another way than recorded within the last hour: "
            "its code has changed or is not deterministic, and the client gets an error"
        )
        do = "bring back the code that wrote the journal; the node's log names the two questions that differ"
        yield harm("diverged", text, do, f"{RUNBOOK}frameholdreplaydivergence", tool=tool)


def paused(seen: FleetFacts) -> Iterator[ProblemView]:
    for pause in seen.paused:
        who = "by itself" if pause.by == FRAMEHOLD else "by an operator"
        why = f" ({pause.why})" if pause.why else ""
        text = f"tool {pause.tool} is paused {who}{why}: new calls of it are refused, parked ones wait"
        do = f"when it is mended: framehold resume {pause.tool}"
        yield harm("tool_paused", text, do, "docs/operating.md#pausing-a-tool", tool=pause.tool)


def failing(seen: FleetFacts) -> Iterator[ProblemView]:
    for tool in seen.failing:
        if tool.failed > FAILING_CALLS and tool.failed > FAILING_SHARE * tool.ended:
            text = (
                f"{tool.failed / tool.ended:.0%} of the calls of {tool.tool} failed in the last ten minutes: "
                f"{tool.failed:,} of {tool.ended:,}"
            )
            do = f"see framehold calls --failed --tool {tool.tool}: it names the lines that raise"
            link = f"/dashboard/calls?failed=true&tool={quote(tool.tool, safe='')}"
            yield harm("calls_fail", text, do, link, tool=tool.tool)


def leaving(seen: FleetFacts) -> Iterator[ProblemView]:
    """Clients that don't wait for their replies. While the store is out, that is why."""
    if seen.store_state in OUT:
        return
    rounds, left = (sum(getattr(node, name) or 0 for node in seen.nodes) for name in ("recent_rounds", "recent_left"))
    if rounds >= LEFT_ROUNDS and left > LEFT_SHARE * rounds:
        tool = max(seen.nodes, key=lambda node: node.recent_left or 0).leaving or ""
        text = (
            f"clients left {left / rounds:.0%} of the rounds of the last five minutes before the reply: {left:,} of "
            f"{rounds:,}, most of them of {tool}"
        )
        do = "see how long its rounds take, and the time-outs of the clients and of the proxies before the routers"
        yield risk("clients_leave", text, do, f"{RUNBOOK}frameholdclientsleave", tool=tool)
