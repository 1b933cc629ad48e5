"""The figures of the trade-off say what their bars and axes mean."""

import pytest

from framehold_loadtest.report import tradeoff_plots
from framehold_loadtest.report.data import Cell, Measured, Missing, Tradeoff
from framehold_loadtest.report.theme import DASHES, HATCHES, SERIES
from framehold_loadtest.tradeoff.options import OPTIONS

pytestmark = pytest.mark.load

CONDITIONS = ["steady", "reply lost"]


def test_colour_is_never_the_only_difference() -> None:
    """Each option has a colour and a hatch of its own; four lines have four dashes."""
    assert all(len(set(marks[: len(OPTIONS)])) == len(OPTIONS) for marks in (HATCHES, SERIES))
    assert len(set(DASHES)) == len(DASHES) == 4


def tradeoff(**options: dict[str, dict[str, Measured | Missing]]) -> Tradeoff:
    """Metrics by option and condition."""
    cells = [Cell(option=option, condition=condition, metrics=by.get(condition, {}))
             for option, by in options.items() for condition in CONDITIONS]  # fmt: skip
    return Tradeoff(machine={}, commit="c", started="s", command="x", options=list(options), conditions=CONDITIONS,
                    cells=cells)  # fmt: skip


def share(name: str, value: float) -> dict[str, Measured | Missing]:
    return {name: Measured(value=value, unit="%")}


def test_the_worst_share_names_the_condition_that_had_it() -> None:
    """Without it E, which repeats where a reply is lost, looks as bad as what repeats always."""
    run = tradeoff(
        H={"steady": share("repeated_share", 0), "reply lost": share("repeated_share", 0)},
        E={"steady": share("repeated_share", 0), "reply lost": share("repeated_share", 100)},
        naive={"steady": share("repeated_share", 100), "reply lost": share("repeated_share", 100)},
        A={"steady": share("lost_share", 0), "reply lost": share("lost_share", 95.4) | share("repeated_share", 2)},
        gone={},
    )
    *_, panel = tradeoff_plots.overview(run).axes
    assert [text.get_text() for text in panel.texts] == [
        "0",
        "100, reply lost",
        "100, always",
        "95.4, reply lost",
        "not available",
    ]
