"""What is told of the trade-off: a report.json as `framehold bench tradeoff` writes it. The JSON of these models is a
contract.

The law: each metric has a value in its unit, or says why it has none.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Reported(BaseModel):
    """What a run wrote: of a newer release it may have written more, and a fact of its machine may be a number."""

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)


class MeasuredView(_Reported):
    """A metric's value."""

    value: float = Field(allow_inf_nan=False)
    unit: str


class MissingView(_Reported):
    """A metric without a value."""

    missing: str = Field(min_length=1)
    """Why it has none."""


class TradeoffCellView(_Reported):
    """What one option did under one condition."""

    option: str
    condition: str
    metrics: dict[str, MeasuredView | MissingView]
    """By name. What is measured by round or by process has a metric for each: `p50_ms_round_1`, `cpu_us_node`."""


class TradeoffView(_Reported):
    """The options under the conditions, all of one run."""

    kind: Literal["tradeoff"]
    machine: dict[str, str]
    """What it was measured on and with."""
    commit: str
    started: str
    command: str
    options: list[str]
    conditions: list[str]
    """The first is the undisturbed one."""
    cells: list[TradeoffCellView]
