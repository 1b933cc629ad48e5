"""Section `store`: what one write costs when 32 writers share the adapter, as on a loaded node; how many a round has.

The writers run in a process of their own on the measured core, Redis on the other. Alone, a write costs a round
trip; under load the group commit shares it, and that is what is measured.
"""

from __future__ import annotations

from typing import Any

from framehold_loadtest.bench.children import Cores, NotAvailable, redis_server, run_json

_SPARE_SECONDS = 20.0


def measure(seconds: float, cores: Cores) -> dict[str, Any]:
    """Load the adapter for some seconds; returns a `writers.Written` as its row, and the writes of each round of a
    call; or why there are none."""
    try:
        with redis_server(cores.load) as store:
            arguments = ["--port", str(store.port), "--store", str(store.pid), "--seconds", str(seconds)]
            row = run_json("writers", arguments, cores.server, seconds + _SPARE_SECONDS)
            rounds = run_json("roundgen", ["--port", str(store.port)], cores.server, _SPARE_SECONDS)
    except NotAvailable as reason:
        return {"rows": [], "not_available": {"store": str(reason)}}
    return {"rows": [row], "rounds": rounds, "not_available": {}}
