"""The table of section `survival`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framehold_loadtest.bench import targets
from framehold_loadtest.bench.report import NONE, Table, verdict
from framehold_loadtest.bench.targets import Target

_MIB = 2**20


def survival(section: Mapping[str, Any]) -> list[Table]:
    """One line for each way to end a node."""
    title = (
        f"Calls whose node is gone, answered through a router, lease TTL {section['ttl']:g} s: 2 rounds and 2 effects"
        " under once each; medians"
    )
    columns = ["node ended by", "calls at once", "first ms", "(slowest)", "last ms", "calls/s", "refused for a while",
               "lost", "effects twice", "store scripts/call", "RSS MiB before/peak", "target"]  # fmt: skip
    lines = [_cells(row, section["ttl"]) for row in section["rows"]]
    notes = [
        "refused for a while: answered with 503, and sent again half a second later, as any client does",
        "SIGTERM counts from the end of the process, SIGKILL from the signal",
    ]
    return [Table(title, [columns, *lines] if lines else [], notes, section["not_available"])]


def _cells(row: Mapping[str, Any], ttl: float) -> list[str]:
    many = row["calls"] > 1
    went_on = row["calls"] / max(1e-9, row["last"] - row["first"])
    return [
        f"{row['way']}, {row['turns']} times" if row["turns"] > 1 else row["way"],
        f"{row['calls']:,}",
        f"{row['first'] * 1e3:,.0f}",
        f"{row['slowest'] * 1e3:,.0f}",
        f"{row['last'] * 1e3:,.0f}" if many else NONE,
        f"{went_on:,.0f}" if many else NONE,
        f"{row['refused']:,}",
        f"{row['lost']:,}",
        f"{row['twice']:,}",
        f"{row['scripts']:.1f}" if many else NONE,
        f"{row['rss_before'] / _MIB:,.0f}/{row['rss_peak'] / _MIB:,.0f}",
        _judged(row, ttl),
    ]


def _judged(row: Mapping[str, Any], ttl: float) -> str:
    if row["way"] == "SIGTERM":
        return verdict(row["slowest"] * 1e3, targets.RESUME_AFTER_DRAIN_MS, " ms")
    if row["calls"] > 1:
        return NONE
    bound = ttl + targets.RESUME_AFTER_DEATH.must
    return verdict(row["slowest"], Target(bound, bound), " s")
