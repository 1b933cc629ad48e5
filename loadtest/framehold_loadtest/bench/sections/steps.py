"""Section `steps`: how many functions of Framehold each round of a call enters, before, in and after the author's code.

A count does not depend on the machine. It shows in a review where a change has made a round longer.
"""

from __future__ import annotations

from typing import Any

from framehold_loadtest.bench.lab.servers import run_json
from framehold_loadtest.local.listeners import Cores
from framehold_loadtest.local.process import NotAvailable

_SPARE_SECONDS = 30.0


def measure(cores: Cores) -> dict[str, Any]:
    """Count; returns an `entries.Entries` for each round and stretch, or why there is none."""
    try:
        rows = run_json("entries", (), cores.server, _SPARE_SECONDS)
    except NotAvailable as reason:
        return {"rows": [], "not_available": {"steps": str(reason)}}
    return {"rows": rows, "not_available": {}}
