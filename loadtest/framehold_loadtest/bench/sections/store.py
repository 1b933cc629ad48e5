"""Section `store`: the cost of a write while 32 writers share the adapter, and the number of writes of each round.

The writers run in a process on the measured core, Redis runs on the other. A single write costs a round trip. Under
load the group commit shares that round trip among writes. Its CPU is judged beside that of redis-py's own pipeline,
which sends as many of the same writes at a time. A write alone is shown, too.
"""

from __future__ import annotations

from typing import Any

from framehold_loadtest.bench.lab.servers import run_json
from framehold_loadtest.local.listeners import Cores, redis_server
from framehold_loadtest.local.process import NotAvailable

_SPARE_SECONDS = 20.0
_WAYS = 3


def measure(seconds: float, cores: Cores) -> dict[str, Any]:
    """Write for some seconds in each way; returns a `writers.Written` as its row, and the writes of each round of a
    call; or why there are none."""
    try:
        with redis_server(cores.load) as store:
            arguments = ["--port", str(store.port), "--store", str(store.pid), "--seconds", str(seconds)]
            row = run_json("writers", arguments, cores.server, _WAYS * seconds + _SPARE_SECONDS)
            rounds = run_json("rounds", ["--port", str(store.port)], cores.server, _SPARE_SECONDS)
    except NotAvailable as reason:
        return {"rows": [], "not_available": {"store": str(reason)}}
    return {"rows": [row], "rounds": rounds, "not_available": {}}
