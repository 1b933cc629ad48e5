"""The targets of the trade-off: H-hold beside E."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from framehold_loadtest.report.data import Cell, Measured, Missing, Tradeoff
from framehold_loadtest.tradeoff.targets import standing

pytestmark = pytest.mark.load

Metrics = dict[str, Measured | Missing]


def metrics(rate: float, p50: tuple[float, float], operations: float) -> Metrics:
    """Those of a cell that are judged; its rounds have these medians."""
    rounds = {f"p50_ms_round_{number}": Measured(value=found, unit="ms") for number, found in enumerate(p50, 1)}
    return {
        "calls_per_second": Measured(value=rate, unit="1/s"),
        **rounds,
        "store_ops": Measured(value=operations, unit="operations"),
    }


def lines(cells: Mapping[str, Metrics]) -> list[list[str]]:
    """The verdicts on a run with these cells under `steady`: what was measured, and the verdict."""
    run = Tradeoff(
        machine={},
        commit="0000000",
        started="now",
        command="framehold bench tradeoff",
        options=list(cells),
        conditions=["steady"],
        cells=[Cell(option=name, condition="steady", metrics=found) for name, found in cells.items()],
    )
    return [[cell.text for cell in line[3:]] for line in standing(run).entries[1:]]


def test_the_verdict_is_to_e() -> None:
    """The slowest round counts, and operations to a tenth: heartbeats are among them."""
    assert lines({"H-hold": metrics(380, (2, 6), 5.04), "E": metrics(400, (4, 3), 0)}) == [
        ["0.95 x", "must met"],
        ["1.5 x", "must met"],
        ["5", "must met"],
    ]


def test_a_target_is_met_missed_or_stretched_as_measured() -> None:
    by_hand = metrics(400, (4, 4), 0)
    missed = lines({"H-hold": metrics(240, (8, 1), 7.04), "E": by_hand})
    assert [verdict for _, verdict in missed] == ["NOT met"] * 3
    stretched = lines({"H-hold": metrics(440, (4, 4), 4.02), "E": by_hand})
    assert [verdict for _, verdict in stretched] == ["stretch met"] * 3


def test_what_was_not_measured_says_why() -> None:
    """E is compared with only where it ran; operations need no other option."""
    held = metrics(240, (8, 1), 7.04)
    gone: Metrics = {name: Missing(missing="install haproxy") for name in ("calls_per_second", "p50_ms", "store_ops")}
    assert [line[0] for line in lines({"H-hold": held, "E": gone})] == ["not measured: install haproxy"] * 2 + ["7"]
    alone = [line[0] for line in lines({"H-hold": held})]
    assert alone == ["not measured: the run did not report it"] * 2 + ["7"]
