"""Arithmetic over samples: phases of faults, affinity, loop lag, and the series that the report draws. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from framehold_loadtest.notes import Round
from framehold_loadtest.stats import percentile

BEFORE, DURING, AFTER = "before", "during", "after"
Sampled = list[float | None]
"""One value for each second of `Series.t`; None where there is none."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What was done to whom, from when until when it was made good again. Seconds since the epoch."""

    at: float
    what: str
    target: str
    until: float
    seen: Mapping[str, float] = field(default_factory=dict)
    """Figures that were read with it, such as the share of the ring that moved."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at the processes of a fleet. Bytes, CPU seconds so far, the buckets of loop lag so far (the upper bound
    in seconds -> how many), and the seconds so far for which a core was waited for, each by name of the process. `late`
    is for a fleet whose buckets can't be read: the 99th percentile of loop lag in the last minute, in seconds."""

    at: float
    parked: Mapping[str, int] = field(default_factory=dict)
    rss: Mapping[str, int] = field(default_factory=dict)
    cpu: Mapping[str, float] = field(default_factory=dict)
    lag: Mapping[str, Mapping[float, float]] = field(default_factory=dict)
    waited: Mapping[str, float] = field(default_factory=dict)
    late: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Series:
    """What was seen in each second `t` of a run. `rate` is of answered rounds, `p50` and `p99` are of them in
    milliseconds, `rss` is in bytes by process."""

    t: list[int]
    rate: list[int]
    p50: Sampled
    p99: Sampled
    rss: dict[str, Sampled] = field(default_factory=dict)


def phase(at: float, faults: Sequence[Fault]) -> str:
    """Where an instant lies: before the first fault, during one, or after."""
    if any(fault.at <= at <= fault.until for fault in faults):
        return DURING
    return AFTER if any(fault.until < at for fault in faults) else BEFORE


def affinity(rounds: Iterable[Round]) -> float | None:
    """The share of resumes that were served where their call was parked; None where there were no resumes."""
    resumed = [item.node == item.before for item in rounds if item.before and item.answered]
    return sum(resumed) / len(resumed) if resumed else None


def worst_lag(samples: Sequence[Sample], share: float = 0.99) -> float:
    """The longest of the processes' percentiles of loop lag, in seconds, by the buckets' upper bounds; where there are
    no buckets, the longest of any minute. nan where nothing was read."""
    names = {name for sample in samples for name, lag in sample.lag.items() if lag}
    found = [_of_buckets(samples, name, share) for name in names]
    found += [late for sample in samples for late in sample.late.values()]
    return max((value for value in found if not math.isnan(value)), default=math.nan)


def stretch(samples: Sequence[Sample]) -> float:
    """How many times as long as their work the processes took for it, because others had the cores; 1 where nothing
    was read."""
    worked = waited = 0.0
    for earlier, later in pairwise(samples):
        for name in earlier.waited.keys() & later.waited.keys():
            if later.cpu[name] > earlier.cpu[name] and later.waited[name] >= earlier.waited[name]:
                worked += later.cpu[name] - earlier.cpu[name]
                waited += later.waited[name] - earlier.waited[name]
    return 1 + waited / worked if worked else 1.0


def _of_buckets(samples: Sequence[Sample], name: str, share: float) -> float:
    """Counts are cumulative over buckets and over time; a process that was begun anew counts from 0 again."""
    seen = [sample.lag[name] for sample in samples if sample.lag.get(name)]
    first, last = seen[0], seen[-1]
    restarted = last.get(math.inf, 0) < first.get(math.inf, 0)
    counts = {bound: count - (0 if restarted else first.get(bound, 0)) for bound, count in last.items()}
    total = counts.get(math.inf, 0)
    bounds = (bound for bound, count in sorted(counts.items()) if count >= share * total)
    return next(bounds, math.nan) if total else math.nan


def drawn(rounds: Sequence[Round], samples: Sequence[Sample], began: float, seconds: float) -> Series:
    """The series of the report, one point a second, `t` counted from the run's start."""
    ticks = list(range(max(1, math.ceil(seconds))))
    times: list[list[float]] = [[] for _ in ticks]
    for item in rounds:
        place = int(item.at + item.seconds - began)
        if item.answered and 0 <= place < len(ticks):
            times[place].append(item.seconds * 1e3)
    names = sorted({name for sample in samples for name in sample.rss})
    return Series(
        t=ticks,
        rate=[len(found) for found in times],
        p50=[percentile(found, 0.5) if found else None for found in times],
        p99=[percentile(found, 0.99) if found else None for found in times],
        rss={name: _laid(samples, began, ticks, name) for name in names},
    )


def _laid(samples: Sequence[Sample], began: float, ticks: Sequence[int], name: str) -> Sampled:
    """A look may take longer than a second: one in which nobody looked shows what was seen last."""
    seen = {int(sample.at - began): sample.rss.get(name) for sample in samples}
    found: Sampled = [None]
    for tick in ticks:
        found.append(seen.get(tick, found[-1]))
    return found[1:]
