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
    """What a value must reach, and what it is hoped to reach."""

    must: float
    stretch: float
    higher_is_better: bool = False

    def judge(self, value: float) -> Verdict:
        """The verdict of a value in the target's unit."""
        if self._reaches(value, self.stretch):
            return Verdict.STRETCH
        return Verdict.MUST if self._reaches(value, self.must) else Verdict.BELOW

    def _reaches(self, value: float, bound: float) -> bool:
        return value >= bound if self.higher_is_better else value <= bound


CALLS = {
    "framehold memory": Target(3.0, 3.3, higher_is_better=True),
    "framehold redis": Target(2.3, 2.8, higher_is_better=True),
}
"""Calls per second as a ratio to the SDK's hand-written handler, under uvicorn."""

FRAME_KIB = Target(8.0, 6.5)
"""RSS per parked frame, KiB."""

RESUME_GROWTH = Target(0.15, 0.05)
"""Growth of resume p50 and p99 from 100 frames to many, as a share."""

YOUNG_PAUSE_MS = Target(25.0, 10.0)
"""Longest pause of a young collection, milliseconds."""

CYCLIC_PER_CALL = Target(0.0, 0.0)
"""Objects per call that only the collector can free."""

STORE_WRITE_US = Target(20.0, 10.0)
"""A loaded store write, microseconds."""
