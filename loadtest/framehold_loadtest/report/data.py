"""What a run leaves behind, report.json: of a scenario, or of the trade-off.

Law: what has no value says so. A second without a sample is None in its series; a metric that could not be measured is
a `Missing` with its reason; `Tradeoff.metrics` has an answer for each pair of option and condition.

Of a scenario, `p50` and `p99` are in milliseconds and all other times in seconds; instants count from its beginning;
`affinity` is a share in 0..1, `rss` is in bytes. The trade-off names the unit of each metric.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

NOT_MEASURED = "not measured: the machine was busy"
"""How the reason begins why a cell of the trade-off has no metrics, where other programs had the cores."""
Sampled = list[float | None]
"""One value for each second of `Series.t`."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)


class _Head(_Record):
    """What every report says of itself. What it holds beyond the contract is kept, and not shown."""

    model_config = ConfigDict(frozen=True, extra="allow", coerce_numbers_to_str=True)

    machine: dict[str, str]
    commit: str
    started: str
    command: str


class Verdict(_Record):
    """One pass rule: what was wanted, and what was seen."""

    name: str
    passed: bool
    wanted: str
    seen: str


class Request(_Record):
    """The requests of one name. `p50` and `p99` in milliseconds, None if there were no requests."""

    count: int
    failures: int
    p50: float | None
    p99: float | None


class Fault(_Record):
    """What was done to what, when, and until when it was made good; None where it was not. `seen` was read with it."""

    at: float
    what: str
    target: str
    until: float | None = None
    seen: dict[str, float] = {}


class Resumes(_Record):
    """How long resumes took, by when they were asked for: before the first fault, while one lasted, after the last."""

    before: list[float] = []
    during: list[float] = []
    after: list[float] = []

    @property
    def phases(self) -> dict[str, list[float]]:
        """By phase."""
        return {"before": self.before, "during": self.during, "after": self.after}


class Effects(_Record):
    """The ledger against the calls: how many effects were wanted, and happened once, twice or more, or never."""

    wanted: int
    once: int
    twice: int
    never: int


class Calls(_Record):
    """How many calls began, came to their result, and were lost."""

    begun: int
    ended: int
    lost: int


class Series(_Record):
    """What was sampled once a second while calls began. `parked` is by node, `rss` by process."""

    t: list[float]
    rate: Sampled
    p50: Sampled
    p99: Sampled
    affinity: Sampled
    parked: dict[str, Sampled] = {}
    rss: dict[str, Sampled] = {}


class Scenario(_Head):
    """One run of one of the eight scenarios."""

    kind: Literal["scenario"] = "scenario"
    scenario: str
    seconds: float
    verdicts: list[Verdict]
    requests: dict[str, Request]
    series: Series
    faults: list[Fault]
    resumes: Resumes
    effects: Effects | None
    calls: Calls

    @property
    def passed(self) -> bool:
        """Whether every rule passed, and there was one."""
        return bool(self.verdicts) and all(verdict.passed for verdict in self.verdicts)


class Measured(_Record):
    """A metric's value in its unit. What was measured in several `turns` has its value in each of them, of which
    `value` is the median; what was counted has none. `beside` is a text to show with it."""

    value: float = Field(allow_inf_nan=False)
    unit: str
    turns: list[float] = []
    beside: str = ""


class Missing(_Record):
    """A metric without a value, and why."""

    missing: str = Field(min_length=1)


class Cell(_Record):
    """What one option did under one condition."""

    option: str
    condition: str
    metrics: dict[str, Measured | Missing]


class Point(_Record):
    """What one option did at one place `x` of a series."""

    option: str
    x: float
    metrics: dict[str, Measured | Missing]


class Sweep(_Record):
    """One thing of the load or the fleet at several values, all else as undisturbed. `unit` is that of `x`."""

    name: str
    unit: str
    points: list[Point]


class Tradeoff(_Head):
    """The options under the conditions, all measured on the same machine in the same run.

    The first condition is the undisturbed one. A metric has one unit in all cells. `idle` has for each option what its
    fleet takes each second while nobody calls.
    """

    kind: Literal["tradeoff"] = "tradeoff"
    options: list[str]
    conditions: list[str]
    cells: list[Cell]
    series: list[Sweep] = []
    idle: dict[str, dict[str, float]] = {}

    def metrics(self, option: str, condition: str) -> Mapping[str, Measured | Missing]:
        """What the pair's cell holds; nothing if it has none."""
        found = (cell.metrics for cell in self.cells if (cell.option, cell.condition) == (option, condition))
        return next(found, {})

    @property
    def busy(self) -> list[str]:
        """The cells that were not measured because the machine was busy, and why."""
        found = [(f"{cell.option} under {cell.condition}", cell.metrics) for cell in self.cells]
        found += [(f"{one.option} at {sweep.name} {one.x:g}", one.metrics) for sweep in self.series
                  for one in sweep.points]  # fmt: skip
        reasons = {name: _why_busy(metrics) for name, metrics in found}
        return [f"{name}{why.removeprefix(NOT_MEASURED)}" for name, why in reasons.items() if why]


def _why_busy(metrics: Mapping[str, Measured | Missing]) -> str:
    reasons = (found.missing for found in metrics.values() if isinstance(found, Missing))
    return next((why for why in reasons if why.startswith(NOT_MEASURED)), "")


Report = Scenario | Tradeoff

_REPORT: TypeAdapter[Report] = TypeAdapter(Annotated[Report, Field(discriminator="kind")])


def read(path: Path) -> Report:
    """The report in a file.

    Raises:
        pydantic.ValidationError: it is no report; the message names the field.
        OSError: it can't be read.
    """
    return _REPORT.validate_json(path.read_bytes())


def facts(report: Report) -> list[tuple[str, str]]:
    """What the figures were measured on and with, by label."""
    head = {"command": report.command, "commit": report.commit, "started": report.started}
    return list((head | {name: fact for name, fact in report.machine.items() if name not in head}).items())
