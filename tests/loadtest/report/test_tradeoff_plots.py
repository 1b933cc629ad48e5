"""The figures of the trade-off say what their bars and axes mean."""

from collections.abc import Iterator

import pytest
from matplotlib.axes import Axes

from framehold_loadtest.report import series_plots, tradeoff_plots
from framehold_loadtest.report.data import Cell, Measured, Missing, Point, Sweep, Tradeoff
from framehold_loadtest.report.theme import LIGHT, worn

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


@pytest.fixture(autouse=True)
def look() -> Iterator[None]:
    with worn(LIGHT):
        yield


def labels(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_the_worst_share_names_the_condition_that_had_it() -> None:
    """Without it E, which repeats where a reply is lost, looks as bad as what repeats always."""
    run = tradeoff(
        H={"steady": share("repeated_share", 0), "reply lost": share("repeated_share", 0)},
        E={"steady": share("repeated_share", 0), "reply lost": share("repeated_share", 100)},
        naive={"steady": share("repeated_share", 100), "reply lost": share("repeated_share", 100)},
        A={"steady": share("lost_share", 0), "reply lost": share("lost_share", 95.4) | share("repeated_share", 2)},
        gone={},
    )
    *_, panel = tradeoff_plots.overview(run, LIGHT).axes
    assert labels(panel) == ["0", "100, reply lost", "100, always", "95.4, reply lost", "not available"]


def test_the_axis_is_long_enough_for_the_quartiles_and_their_label() -> None:
    """The median of one option may be far below its highest turns."""
    turns = [1000.0, 1000.0, 1000.0, 6000.0, 6000.0]
    run = tradeoff(H={"steady": {"cpu_us": Measured(value=1000, unit="us", turns=turns)}})
    axes = tradeoff_plots.cpu(run, LIGHT).axes[0]
    assert axes.get_xlim()[1] > 6000 and labels(axes) == ["1,000"]


@pytest.mark.parametrize(
    ("bytes_of_h", "scale", "title"),
    [(100.0, "linear", "memory held, bytes"), (1000.0, "log", "memory held, bytes (log)")],
)
def test_an_axis_on_which_the_lowest_could_not_be_seen_is_logarithmic(
    bytes_of_h: float, scale: str, title: str
) -> None:
    rate = Measured(value=9.0, unit="1/s")
    points = [Point(option=option, x=x,
                    metrics={"memory_bytes": Measured(value=size, unit="bytes"), "calls_per_second": rate})
              for option, size in (("E", 4.0), ("H", bytes_of_h)) for x in (1.0, 60.0)]  # fmt: skip
    sweep = Sweep(name="think time", unit="s", points=points)
    run = tradeoff(E={}, H={}).model_copy(update={"series": [sweep]})
    axes = series_plots.drawing("think time")(run, LIGHT).axes[0]
    assert (axes.get_yscale(), axes.get_title(loc="left")) == (scale, title)
    assert axes.get_xlabel() == "think time, s"
