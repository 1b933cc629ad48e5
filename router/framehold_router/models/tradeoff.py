"""The models of the trade-off report: the report.json that `framehold bench tradeoff` writes. Their JSON is a contract.

The law: each metric has a value with its unit, or the reason why it has none.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Reported(BaseModel):
    """A part of a report. Unknown fields, which a newer release may write, are ignored; numbers in text fields become
    texts."""

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)


class MeasuredView(_Reported):
    """A metric's value."""

    value: float = Field(allow_inf_nan=False)
    unit: str
    turns: list[float] = []
    """Its value in each turn of the measurement, of which `value` is the median; empty for what was counted."""
    beside: str = ""
    """A text to show with it, such as the counts of a share."""
    earlier: list[float] | None = None
    """Its value in each turn of the earlier run that confirms this one, or the one that was counted; null if no run
    confirms it."""


class MissingView(_Reported):
    """A metric without a value."""

    missing: str = Field(min_length=1)
    """Why the metric has no value."""


class TradeoffCellView(_Reported):
    """The metrics of one option under one condition."""

    option: str
    condition: str
    metrics: dict[str, MeasuredView | MissingView]
    """The metrics by name. A figure of each round or process is a metric of its own: `p50_ms_round_1`,
    `cpu_us_node`."""


class TradeoffView(_Reported):
    """A report: all options under all conditions, measured in one run."""

    kind: Literal["tradeoff"]
    machine: dict[str, str]
    """Facts of the machine and the software of the run."""
    commit: str
    started: str
    command: str
    options: list[str]
    conditions: list[str]
    """The conditions; the first is the undisturbed one."""
    cells: list[TradeoffCellView]
    default_mode: TradeoffCellView | None = None
    """The cell of option E under the first condition once more, with its servers in the SDK's default mode; null if it
    was not measured."""
