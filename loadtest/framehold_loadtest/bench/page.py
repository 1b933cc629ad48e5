"""The parts of `docs/performance.md` that the benchmark fills, each by its name, as Markdown.

The law: one whole run fills all of them, so that no two figures on the page are of different runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from framehold_loadtest import page
from framehold_loadtest.bench import (
    lease_bench,
    report,
    report_metrics,
    report_replay,
    report_router,
    report_survival,
    server_bench,
)
from framehold_loadtest.bench.report import Table
from framehold_loadtest.bench.standing import standing

PROGRAM = "python -m framehold_loadtest.bench"
"""Whose marks the parts go between."""
TABLES: dict[str, Callable[[Mapping[str, Any]], Sequence[Table]]] = {
    "calls": report.calls,
    "server": server_bench.hosts,
    "frames": report.frames,
    "store": report.store,
    "router": report_router.router,
    "replay": report_replay.replay,
    "survival": report_survival.survival,
    "metrics": report_metrics.metrics,
    "leases": lease_bench.leases,
}
"""What each section shows."""


def parts(measured: Mapping[str, Any], sections: Sequence[str]) -> dict[str, str]:
    """Where and how it was measured, the targets, and these sections.

    Raises:
        ValueError: the run left one of them out.
    """
    left_out = [name for name in sections if name not in measured]
    if left_out:
        raise ValueError(f"the run left out {', '.join(left_out)}; nothing was written; run all sections for a page")
    took = {name: f"{seconds:.0f} s" for name, seconds in measured["seconds"].items()}
    return {
        "machine": page.table(("", ""), measured["machine"].items()),
        "seconds": page.table(("section", "took"), took.items()),
        "targets": standing(measured).markdown(),
        **{name: "\n\n".join(table.markdown() for table in TABLES[name](measured[name])) for name in sections},
    }
