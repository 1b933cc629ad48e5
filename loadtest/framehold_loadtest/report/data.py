"""What a run leaves behind, report.json: of a scenario, or of the trade-off.

Law: what has no value says so. A second without a sample is None in its series; a metric that could not be measured is
a `Missing` with its reason; `Tradeoff.metrics` has an answer for each pair of option and condition.

Times of a scenario are in seconds, and instants count from its beginning. The trade-off names the unit of each metric.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from framehold_loadtest.ledger import Effects
from framehold_loadtest.report.series import Fault, Series

NOT_MEASURED = "not measured: the machine was busy"
"""How the reason begins why a cell of the trade-off has no metrics, where other programs had the cores."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)


class _Head(_Record):
    """What every report says of itself. What it holds beyond the contract is kept, and not shown."""

    model_config = ConfigDict(frozen=True, extra="allow", coerce_numbers_to_str=True)

    machine: dict[str, str]
    commit: str
    started: str
    command: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one pass rule held: what was wanted, and what was seen."""

    name: str
    passed: bool
    wanted: str
    seen: str


class Calls(_Record):
    """How many calls began, came to their result, and were lost."""

    begun: int
    ended: int
    lost: int


class Scenario(_Head):
    """One run of one of the eight scenarios. `resumes` has how long resumes took, by when they were asked for: before
    the first fault, while one lasted, after the last. `effects` is None where no ledger could be read."""

    scenario: str
    seconds: float
    verdicts: list[Verdict]
    series: Series
    faults: list[Fault]
    resumes: dict[str, list[float]]
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

    options: list[str]
    conditions: list[str]
    cells: list[Cell]
    series: list[Sweep] = []
    idle: dict[str, dict[str, float]] = {}

    def metrics(self, option: str, condition: str) -> Mapping[str, Measured | Missing]:
        """What the pair's cell holds; nothing if it has none."""
        found = (cell.metrics for cell in self.cells if (cell.option, cell.condition) == (option, condition))
        return next(found, {})


def facts(report: _Head) -> list[tuple[str, str]]:
    """What the figures were measured on and with, by label."""
    head = {"command": report.command, "commit": report.commit, "started": report.started}
    return list((head | {name: fact for name, fact in report.machine.items() if name not in head}).items())
