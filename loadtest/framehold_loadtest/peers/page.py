"""The parts of `docs/performance.md` that a run of all peers fills, each by its name, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framehold_loadtest import page
from framehold_loadtest.bench import report_router
from framehold_loadtest.bench.report import Table
from framehold_loadtest.peers.report import table

PROGRAM = "python -m framehold_loadtest.peers"
"""Whose marks the parts go between."""
SECTIONS = ("calls", "relays")


def parts(measured: Mapping[str, Any]) -> dict[str, str]:
    """Where and how it was measured, calls of all peers, and the router beside HAProxy.

    Raises:
        ValueError: the run left one of them out.
    """
    left_out = [name for name in SECTIONS if name not in measured]
    if left_out:
        raise ValueError(f"the run left out {', '.join(left_out)}; nothing was written; run all peers for a page")
    return {
        "machine": page.table(("", ""), measured["machine"].items()),
        "calls": table(measured["calls"]).markdown(),
        "relays": "\n\n".join(found.markdown() for found in relays(measured["relays"])),
    }


def relays(section: Mapping[str, Any]) -> list[Table]:
    """The router beside HAProxy, as the benchmark shows it."""
    return report_router.router({"routed": {}, "relays": section, "not_available": section["not_available"]})
