"""The speed targets of the design, and the verdict of a measured value against them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a value stands to its target."""

    STRETCH = "stretch met"
    MUST = "must met"
    BELOW = "NOT met"


@dataclass(frozen=True, slots=True)
class Target:
    """What a value must reach, and what it is hoped to reach; both the same where nothing beyond is asked."""

    must: float
    stretch: float
    higher_is_better: bool = False

    def judge(self, value: float) -> Verdict:
        """The verdict of a value in the target's unit."""
        if self.stretch != self.must and self._reaches(value, self.stretch):
            return Verdict.STRETCH
        return Verdict.MUST if self._reaches(value, self.must) else Verdict.BELOW

    def _reaches(self, value: float, bound: float) -> bool:
        return value >= bound if self.higher_is_better else value <= bound


CALLS = {
    "framehold memory": Target(3.0, 3.3, higher_is_better=True),
    "framehold redis": Target(2.3, 2.8, higher_is_better=True),
}
"""Two-round calls per CPU second of the node, as a ratio to the SDK's hand-written handler, under uvicorn."""

OWN_SERVER = {
    "framehold memory": Target(4.0, 4.6, higher_is_better=True),
    "framehold redis": Target(3.0, 4.0, higher_is_better=True),
}
"""The same under a server of our own in uvicorn's place."""

FRAME_KIB = Target(8.0, 6.5)
"""RSS per parked frame, KiB."""

RESUME_GROWTH = Target(0.15, 0.05)
"""Growth of resume p50 and p99 from 100 frames to many, as a share."""

YOUNG_PAUSE_MS = Target(25.0, 10.0)
"""Longest pause of a young collection, milliseconds."""

CYCLIC_PER_CALL = Target(0.0, 0.0)
"""Objects per call that only the collector can free."""

STORE_WRITE_US = Target(20.0, 10.0)
"""CPU of the client for a loaded store write, microseconds."""

WRITES_PER_ROUND = Target(1.0, 1.0)
"""Store writes of one round."""

METRICS_SLOWDOWN = Target(0.05, 0.02)
"""What metrics take of a node's calls per second, as a share: the median of the pairs."""

LEASES_FIRST_PAGE_MS = Target(200.0, 100.0)
"""Until an operator has the first page of a fleet's calls, milliseconds, at 100,000 of them."""

ONCE_WRITES = Target(2.0, 2.0)
"""Store writes of one `once`: its intent and its result."""

RESUME_AFTER_DEATH = Target(1.0, 1.0)
"""Seconds beyond the lease's TTL until a call of a node that was killed goes on."""

RESUME_AFTER_DRAIN_MS = Target(200.0, 200.0)
"""Until a call of a node that was drained goes on, milliseconds."""

ROUTER_ADDED_MS = Target(1.0, 1.0)
"""What the router adds to the median of a round on an unloaded machine, milliseconds."""

ROUTER_CPU = Target(2.0, 1.7)
"""The router's CPU per request as a ratio to HAProxy's, with the same hash, in the same run."""
