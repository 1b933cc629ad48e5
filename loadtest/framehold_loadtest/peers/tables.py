"""The tables of peers, ratios first, and the parts of a page that a run of all peers fills."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framehold_loadtest import marked_page
from framehold_loadtest.bench.tables import performance
from framehold_loadtest.bench.tables.table import (
    ERRORS,
    LATENCIES,
    Row,
    Table,
    computed,
    errors_of,
    lines,
    middle,
    ratios,
    text,
    value,
)

PROGRAM = "python -m framehold_loadtest.peers"
"""The program in the marks that the parts go between."""
SECTIONS = ("calls", "relays")


def _costs(row: Row) -> str:
    store = f" + {row['store_cpu'] * 1e6:.0f}" if row["store_cpu"] else ""
    return f"{row['server_cpu'] * 1e6:.0f}{store}"


_COLUMNS = (
    text("peer", "peer"),
    ratios("calls/s to sdk", "rates"),
    middle("to default", "default_rates"),
    ratios("CPU/call to sdk", "costs"),
    middle("to default", "default_costs"),
    value("calls/s", "calls_per_second"),
    computed("us CPU/call own + store", _costs),
    *LATENCIES,
    value("busy peer/load", "busy load_busy", "{:.0%} / {:.0%}"),
    ERRORS,
)


def table(section: Mapping[str, Any]) -> Table:
    """What was measured of each peer, and what each of them is."""
    title = (
        "Two-round calls, {connections} connections, {plan[turns]} x {plan[seconds]:g} s in turn,"
        " medians; ratios to sdk, and to sdk, default, in the same turn; all that a peer needs shares one core"
    ).format(**section)
    notes = [f"{name}: {what}" for name, what in section["peers"].items() if name not in section["not_available"]]
    notes += errors_of(section["rows"], "peer")
    return Table(title, lines(_COLUMNS, section["rows"]), notes, section["not_available"])


def relays(section: Mapping[str, Any]) -> Table:
    """The router beside HAProxy, as the benchmark shows it."""
    return performance.relays(section, section["not_available"])


def parts(measured: Mapping[str, Any]) -> dict[str, str]:
    """Where and how it was measured, calls of all peers, and the router beside HAProxy.

    Raises:
        ValueError: the run left one of them out.
    """
    left_out = [name for name in SECTIONS if name not in measured]
    if left_out:
        raise ValueError(f"the run left out {', '.join(left_out)}; nothing was written; run all peers for a page")
    return {
        "machine": marked_page.table(("", ""), measured["machine"].items()),
        "calls": table(measured["calls"]).markdown(),
        "relays": relays(measured["relays"]).markdown(),
    }
