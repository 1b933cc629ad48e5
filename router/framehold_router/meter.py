"""What a router has counted since it began: plain numbers, which `metrics` shows when somebody asks.

The law: to count costs an addition. A router is one event loop, so no lock is needed, and what a library's counter
would do for each request is done once for each look at them. Each label comes from a set that is bounded: kinds,
reasons, classes of statuses, and names of tools that the fleet itself has said.
"""

from __future__ import annotations

from base64 import b64encode
from collections import defaultdict
from collections.abc import Collection

from . import buckets
from .tallies import Tally

LABELS = ("tool", "round_kind", "route", "outcome")
OTHER = "other"
"""The label of what is none of the fleet's tools, and of what is neither start, retry nor session."""
NONE = "none"
"""The label of what was sent nowhere."""
ABORTED = "aborted"
"""The client left before the end, or the response broke off."""
OUTCOMES = {status: f"{min(status // 100, 5)}xx" for status in range(100, 1000)}
"""The label of each status; what no standard knows is the server's fault."""
NAME = b"mcp-name"
"""The header that names a request's tool."""
TOOLS = 500
"""Names of tools that this router tells apart in its life; others are `other`."""


class Meter:
    """The counts of one router. Times are in seconds; `hits` and `misses` are of retries: whether the node that was
    sent to is the one that served."""

    def __init__(self) -> None:
        self.requests: defaultdict[tuple[str, str, str, str], int] = defaultdict(int)
        """By the values of LABELS."""
        self.placing = Tally((0.00001, 0.00005, 0.0001, *buckets.HOP))
        self.upstream = Tally((*buckets.HOP, 2.5, 5.0, 10.0, 30.0))
        self.detected = Tally(buckets.FAILOVER)
        self.hits = self.misses = 0
        self.tools: dict[bytes, str] = {}
        """The fleet's tools, by what a request's header says."""
        self._known: set[str] = set()

    def tell_apart(self, tools: Collection[str]) -> None:
        """From now on these are the fleet's tools. A name may come and go, but no more than TOOLS ever come."""
        self._known.update(sorted({*tools} - self._known)[: TOOLS - len(self._known)])
        known = self._known.intersection(tools)
        # What no header can carry as it is comes in base64, and so may anything else.
        self.tools = {b"=?base64?%b?=" % b64encode(name.encode()): name for name in known}
        self.tools |= {name.encode(): name for name in known}

    def refused(self, status: int) -> None:
        """A request was answered in the router's own name before anybody asked where it belongs."""
        self.requests[OTHER, OTHER, NONE, OUTCOMES[status]] += 1
