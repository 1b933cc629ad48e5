"""The tables of section `metrics`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framehold_loadtest.bench import targets
from framehold_loadtest.bench.report import NONE, Table, verdict


def metrics(section: Mapping[str, Any]) -> list[Table]:
    """Each pair, and below them what they come to."""
    plan = section["plan"]
    title = (
        f"What metrics cost: {plan['pairs']} pairs of 2 x {plan['slices']} slices of {plan['calls']['seconds']:g} s,"
        f" {section['server']}, two-round"
        f" calls, {section['connections']} connections"
    )
    pairs = [["pair", "calls/s with", "calls/s without", "slower by", "more CPU/call"]]
    pairs += [
        [
            str(number),
            f"{pair['on_calls_per_second']:.0f}",
            f"{pair['off_calls_per_second']:.0f}",
            f"{pair['slowdown']:+.1%}",
            f"{pair['more_cpu']:+.1%}",
        ]
        for number, pair in enumerate(section["pairs"], 1)
    ]
    told = [["worse by", "median", "quartiles", "range", "errors", "target"], *map(_cells, section["rows"])]
    return [Table(title, pairs, missing=section["not_available"]), Table("", told if section["rows"] else [])]


def _cells(row: Mapping[str, Any]) -> list[str]:
    judged = row["figure"] == "calls per second"
    return [
        row["figure"],
        f"{row['median']:+.1%}",
        f"{row['lower']:+.1%} to {row['upper']:+.1%}",
        f"{row['least']:+.1%} to {row['most']:+.1%}",
        str(row["errors"]),
        verdict(row["median"], targets.METRICS_SLOWDOWN, "", percent=True) if judged else NONE,
    ]
