"""The figures of the trade-off say what their bars and axes mean."""

import pytest

from framehold_loadtest.report import series_plots, tradeoff_plots
from framehold_loadtest.report.data import Cell, Measured, Missing, Point, Sweep, Tradeoff

pytestmark = pytest.mark.load

CONDITIONS = ["steady", "reply lost"]


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


@pytest.mark.parametrize(
    ("bytes_of_h", "scale", "title"),
    [(100.0, "linear", "sent and received, bytes"), (1000.0, "log", "sent and received, bytes (log)")],
)
def test_an_axis_on_which_the_lowest_could_not_be_seen_is_logarithmic(
    bytes_of_h: float, scale: str, title: str
) -> None:
    points = [Point(option=option, x=x, metrics={"wire_bytes": Measured(value=size, unit="bytes")})
              for option, size in (("E", 4.0), ("H", bytes_of_h)) for x in (1.0, 6.0)]  # fmt: skip
    sweep = Sweep(name="rounds", unit="", points=points)
    run = tradeoff(E={}, H={}).model_copy(update={"series": [sweep]})
    axes = series_plots.drawing("rounds")(run).axes[1]
    assert (axes.get_yscale(), axes.get_title()) == (scale, title)
    assert axes.get_xlabel() == "rounds of a call"
