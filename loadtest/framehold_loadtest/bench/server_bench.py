"""Section `server`: what uvicorn takes of a node's request, and how little any server in its place could take.

Three processes answer alike and take turns; see `hosts`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from framehold_loadtest.bench.calls import CONNECTIONS
from framehold_loadtest.bench.children import Cores, NotAvailable, announced, run_json
from framehold_loadtest.bench.hosts import BYTES, KINDS, READER, UVICORN
from framehold_loadtest.bench.relaygen import Relayed
from framehold_loadtest.bench.relays import Spread
from framehold_loadtest.bench.report import Table, quartiles

_SPARE_SECONDS = 60.0
_ABOUT = {
    UVICORN: "uvicorn with httptools, an app of two lines",
    READER: "the router's reader and a task for each request, no ASGI, no limits",
    BYTES: "bytes in, bytes out: the kernel and the event loop",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure."""

    turns: int
    requests: int


def measure(plan: Plan, cores: Cores) -> dict[str, Any]:
    """Run all kinds in turn; returns their rows - CPU in seconds per request - or why there are none."""
    arguments = ["--upstream", os.getpid(), "--connections", CONNECTIONS]
    arguments += ["--turns", plan.turns, "--requests", plan.requests]
    try:
        with contextlib.ExitStack() as stack:
            for kind in KINDS:
                child = stack.enter_context(announced(["framehold_loadtest.bench.hosts", kind], cores.server, {}))
                arguments += ["--site", child.port, child.pid]
            found = run_json("relaygen", [str(word) for word in arguments], cores.load, _SPARE_SECONDS)
    except NotAvailable as reason:
        return {"rows": [], "not_available": {"server": str(reason)}}
    runs = {kind: Relayed(**run) for kind, run in zip(KINDS, found, strict=True)}
    rows = [_row(kind, run, plan.requests) for kind, run in runs.items() if not run.failure]
    missing = {kind: run.failure for kind, run in runs.items() if run.failure}
    return {"plan": asdict(plan), "connections": CONNECTIONS, "rows": rows, "not_available": missing}


def _row(kind: str, run: Relayed, requests: int) -> dict[str, Any]:
    return {
        "kind": kind,
        "cpu_per_request": asdict(Spread.of([cpu / requests for cpu in run.relay_cpu])),
        "requests_per_second": median(requests / seconds for seconds in run.seconds),
    }


def hosts(section: Mapping[str, Any]) -> list[Table]:
    """The table of the section."""
    title, lines = "What hosts an app", []
    if section["rows"]:
        plan = section["plan"]
        title += (
            f": {section['connections']} connections, {plan['turns']} x {plan['requests']:,} requests each in short"
            " turns, all answered with 200; medians (quartiles)"
        )
        lines.append(["host", "us CPU/request", "requests/s"])
        for row in section["rows"]:
            cells = quartiles(row["cpu_per_request"], 1), f"{row['requests_per_second']:,.0f}"
            lines.append([_ABOUT[row["kind"]], *cells])
    return [Table(title, lines, missing=section["not_available"])]
