"""The table of peers: ratios first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framehold_loadtest.bench.report import Table, ratios

_COLUMNS = ["peer", "calls/s to sdk", "(range)", "CPU/call to sdk", "(range)", "calls/s", "us CPU/call own + store",
            "round 1 p50/p99 ms", "round 2 p50/p99 ms", "busy peer/load", "errors"]  # fmt: skip


def table(section: Mapping[str, Any]) -> Table:
    """What was measured of each peer, and what each of them is."""
    plan, measured = section["plan"], section["rows"]
    title = (
        f"Two-round calls, {section['connections']} connections, {plan['turns']} x {plan['seconds']:g} s in turn,"
        " medians; ratios to sdk in the same turn; all that a peer needs shares one core"
    )
    notes = [f"{name}: {what}" for name, what in section["peers"].items() if name not in section["not_available"]]
    notes += [f"{row['peer']}: {count} x {kind}" for row in measured for kind, count in row["errors"].items()]
    return Table(title, [_COLUMNS, *map(_cells, measured)], notes, section["not_available"])


def _cells(row: Mapping[str, Any]) -> list[str]:
    store = f" + {row['store_cpu'] * 1e6:.0f}" if row["store_cpu"] else ""
    return [
        row["peer"],
        *ratios(row["rates"]),
        *ratios(row["costs"]),
        f"{row['calls_per_second']:.0f}",
        f"{row['server_cpu'] * 1e6:.0f}{store}",
        f"{row['first_p50'] * 1e3:.1f} / {row['first_p99'] * 1e3:.1f}",
        f"{row['second_p50'] * 1e3:.1f} / {row['second_p99'] * 1e3:.1f}",
        f"{row['busy']:.0%} / {row['load_busy']:.0%}",
        str(sum(row["errors"].values())),
    ]
