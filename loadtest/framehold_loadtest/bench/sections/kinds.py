"""Section `kinds`: what a call of each kind of handler costs, beside the same handler written by hand for the SDK.

There is no HTTP server in it: what is measured is what the apps themselves do.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from framehold_loadtest.bench.lab.servers import run_json
from framehold_loadtest.local.listeners import Cores
from framehold_loadtest.local.process import NotAvailable

_SPARE_SECONDS = 120.0
_SECONDS_PER_CALL = 0.1  # of all kinds at both servers, on a slow machine


@dataclass(frozen=True, slots=True)
class KindsPlan:
    """How many turns each server has, and how many calls a turn has."""

    turns: int
    calls: int


def measure(plan: KindsPlan, cores: Cores) -> dict[str, Any]:
    """Make the calls; returns a `kinds.Cost` for each kind, or why there is none."""
    arguments = ("--turns", plan.turns, "--calls", plan.calls)
    timeout = _SPARE_SECONDS + _SECONDS_PER_CALL * plan.turns * plan.calls
    try:
        rows = run_json("kinds", arguments, cores.server, timeout)
    except NotAvailable as reason:
        return {"plan": asdict(plan), "rows": [], "not_available": {"kinds": str(reason)}}
    return {"plan": asdict(plan), "rows": rows, "not_available": {}}
