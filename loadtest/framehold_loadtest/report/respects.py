"""The respects in which options are compared: what each is called, which way is better, and how its parts add up.

Law: a value counts only if all its parts were measured. In report.json the parts of a respect are metrics of their own,
named by a suffix: `p50_ms_round_1`, `cpu_us_node`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from framehold_loadtest.report.data import Measured, Missing

PLACES = ("node", "router", "store")
"""Where a call costs CPU."""


@dataclass(frozen=True, slots=True)
class Respect:
    """One row of the comparison, in which less is better, or `more`. `fold` makes one number of the parts; `counted`
    numbers are sums over all turns, and exact."""

    name: str
    label: str
    more: bool = False
    fold: Callable[[Iterable[float]], float] = sum
    folded: str = ""
    counted: bool = False


RESPECTS = (
    Respect("cpu_us", "CPU per call, µs", folded="node + router + store"),
    Respect("calls_per_second", "calls per second", more=True),
    Respect("wait_p50_ms", "wait of a call, median, ms"),
    Respect("wait_p99_ms", "wait of a call, p99, ms"),
    Respect("wait_longest_ms", "longest wait of a call, ms"),
    Respect("seconds_to_recover", "time to recover, s"),
    Respect("lost_share", "share of calls lost, %", counted=True),
    Respect("repeated_share", "share with a repeated effect, %", counted=True),
    Respect("p50_ms", "latency p50, ms", fold=max, folded="slowest round"),
    Respect("p99_ms", "latency p99, ms", fold=max, folded="slowest round"),
    Respect("wire_bytes", "sent and received, bytes", folded="all rounds"),
    Respect("token_bytes", "token, bytes", fold=max, folded="largest"),
    Respect("store_ops", "store operations per call"),
    Respect("bytes_per_parked_call", "memory per parked call, bytes", folded="node + router + store"),
    Respect("reexecutions", "handler re-executions"),
)

BY_NAME = {respect.name: respect for respect in RESPECTS}


@dataclass(frozen=True, slots=True)
class Value:
    """What was measured in one respect: the parts by name, and the one number that they fold into. `turns` has the
    number of each turn, if all parts were measured in the same turns; the number is then their median."""

    parts: Mapping[str, float]
    number: float
    turns: tuple[float, ...] = ()
    beside: str = ""


def value(metrics: Mapping[str, Measured | Missing], respect: Respect) -> Value | Missing:
    """The respect's value among a cell's metrics, or why it has none."""
    parts = _parts(metrics, respect.name)
    if not parts:
        return Missing(missing="the run did not report it")
    gaps = [f"{part}: {found.missing}" if part else found.missing for part, found in parts.items()
            if isinstance(found, Missing)]  # fmt: skip
    if gaps:
        return Missing(missing="; ".join(dict.fromkeys(gaps)))
    known = {part: found for part, found in parts.items() if isinstance(found, Measured)}
    numbers = {part: found.value for part, found in known.items()}
    turns = _folded([found.turns for found in known.values()], respect.fold)
    number = median(turns) if turns else respect.fold(numbers.values())
    beside = next(iter(known.values())).beside if len(known) == 1 else ""
    return Value(numbers, number, turns, beside)


def _folded(turns: Sequence[Sequence[float]], fold: Callable[[Iterable[float]], float]) -> tuple[float, ...]:
    """Turn by turn; nothing where the parts have not the same number of them."""
    return tuple(map(fold, zip(*turns, strict=True))) if len({len(part) for part in turns}) == 1 else ()


def _parts(metrics: Mapping[str, Measured | Missing], name: str) -> dict[str, Measured | Missing]:
    """The metrics that belong to a respect, by their part: "" for the whole, "round 2" or "node" for a share of it."""
    rounds = sorted(int(found[1]) for full in metrics if (found := re.fullmatch(rf"{name}_round_(\d+)", full)))
    parts = {f"round {number}": metrics[f"{name}_round_{number}"] for number in rounds}
    parts |= {place: metrics[f"{name}_{place}"] for place in PLACES if f"{name}_{place}" in metrics}
    return parts or ({"": metrics[name]} if name in metrics else {})
