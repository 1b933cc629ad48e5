"""Section `leases`: how long an operator waits for a page of a fleet's calls.

Real nodes with a Redis, and a router before them. Nodes share one core and the router and whoever asks the other: on a
machine for each it is quicker.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from framehold_loadtest.bench import proxies, targets
from framehold_loadtest.bench.calls import settings
from framehold_loadtest.bench.children import Cores, NotAvailable, redis_server, run_json, serving
from framehold_loadtest.bench.report import NONE, Table, verdict

NODES = 5
_SPARE_SECONDS = 60.0
_SECONDS_PER_CALL = 0.01


@dataclass(frozen=True, slots=True)
class Plan:
    """How many calls are parked on all nodes together, and how often each question is asked."""

    calls: int
    times: int


def measure(plan: Plan, cores: Cores) -> dict[str, Any]:
    """Park and list; returns one `leasegen.Listing` for each question, or why there is none."""
    section = {"plan": asdict(plan), "nodes": NODES, "rows": [], "not_available": {}}
    try:
        section["rows"] = _run(plan, cores)
    except NotAvailable as reason:
        section["not_available"] = {"leases": str(reason)}
    return section


def _run(plan: Plan, cores: Cores) -> Any:
    limit = str(plan.calls + 1000)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(redis_server(cores.load))
        limits = {"FRAMEHOLD_MAX_PARKED": limit, "FRAMEHOLD_MAX_PARKED_PER_PRINCIPAL": limit}
        common = {**settings(store), **limits}
        arguments = ["--calls", str(plan.calls), "--times", str(plan.times)]
        for number in range(NODES):
            named = {"FRAMEHOLD_NODE_ID": f"n{number}"}
            node = stack.enter_context(serving("framehold", cores.server, {**common, **named}))
            arguments += ["--node", str(node.port)]
        router = stack.enter_context(proxies.framehold_router(cores.load, common, NODES))
        arguments += ["--router", str(router.port)]
        return run_json("leasegen", arguments, cores.load, _SPARE_SECONDS + _SECONDS_PER_CALL * plan.calls)


def leases(section: Mapping[str, Any]) -> list[Table]:
    """The table of this section."""
    title = f"GET /api/v1/leases at {section['plan']['calls']:,} parked calls on {section['nodes']} nodes"
    lines = [["question", "p50", "slowest", "of", "items", "calls", "kB", "target"]]
    lines += [
        [
            row["what"],
            f"{row['seconds_p50'] * 1e3:.0f} ms",
            f"{row['seconds_max'] * 1e3:.0f} ms",
            str(row["asked"]),
            str(row["items"]),
            f"{row['total']:,}",
            f"{row['bytes'] / 1000:.0f}",
            verdict(row["seconds_p50"] * 1e3, targets.LEASES_FIRST_PAGE_MS, " ms")
            if row["what"] == "first page"
            else NONE,
        ]
        for row in section["rows"]
    ]
    return [Table(title, lines if section["rows"] else [], missing=section["not_available"])]
