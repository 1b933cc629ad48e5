"""The counts of a router since its start: plain numbers, which `metrics` shows on request.

The law: counting costs one addition. A router is one event loop, so no lock is needed; the work that a library's
counter does for each event is done once for each scrape. The values of each label are bounded: kinds, reasons, classes
of statuses, and names of tools that the nodes report.
"""

from __future__ import annotations

from base64 import b64encode
from collections import defaultdict
from collections.abc import Collection

from framehold_fleet.telemetry import bounds
from framehold_fleet.telemetry.histogram import Tally

LABELS = ("tool", "round_kind", "route", "outcome")
OTHER = "other"
"""The label of a request without a tool of the fleet, and of a request that is neither start, retry nor session."""
NONE = "none"
"""The label of a request that was sent to no node."""
ABORTED = "aborted"
"""The label of a request whose client left before the end, or whose response broke off."""
OUTCOMES = {status: f"{min(status // 100, 5)}xx" for status in range(100, 1000)}
"""The label of each status; statuses above 599 count as 5xx."""
TOOL_HEADER = b"mcp-name"
"""The header that names the tool of a request."""
MAX_TOOLS = 500
"""Names of tools that get a label of their own while a router runs; other tools are counted as `other`."""


class Meter:
    """The counts of one router. Times are in seconds. `hits` counts the retries that were served by the node which the
    router chose, `misses` those that another node served."""

    def __init__(self) -> None:
        self.requests: defaultdict[tuple[str, str, str, str], int] = defaultdict(int)
        """Requests, by their values of LABELS. From 0 on: `increase` of Prometheus does not see the first sample of a
        series."""
        for outcome in ("2xx", "4xx", "5xx"):
            self.requests[OTHER, OTHER, NONE, outcome] = 0
        self.placing = Tally((0.00001, 0.00005, 0.0001, *bounds.HOP))
        self.upstream = Tally((*bounds.HOP, 2.5, 5.0, 10.0, 30.0))
        self.detected = Tally(bounds.FAILOVER)
        self.hits = self.misses = 0
        self.tools: dict[bytes, str] = {}
        """The names of the tools of the fleet, by the value of TOOL_HEADER."""
        self._known: set[str] = set()

    def set_tools(self, tools: Collection[str]) -> None:
        """Set the names of the tools of the fleet. Names may come and go; after MAX_TOOLS different names no new one is
        taken."""
        self._known.update(sorted({*tools} - self._known)[: MAX_TOOLS - len(self._known)])
        known = self._known.intersection(tools)
        # A name that no header can carry is sent in base64; a client may send any name so.
        self.tools = {b"=?base64?%b?=" % b64encode(name.encode()): name for name in known}
        self.tools |= {name.encode(): name for name in known}

    def refused(self, status: int) -> None:
        """Count a request that was refused with `status` before placement."""
        self.requests[OTHER, OTHER, NONE, OUTCOMES[status]] += 1
