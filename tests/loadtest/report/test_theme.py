"""What the figures look like."""

import pytest
from matplotlib.figure import Figure

from framehold_loadtest.report.theme import DASHES, HATCHES, MARKERS, SERIES, upright
from framehold_loadtest.tradeoff.options import OPTIONS

pytestmark = pytest.mark.load


def test_colour_is_never_the_only_difference() -> None:
    """Each option has a colour, a marker and a hatch of its own; four lines have four dashes."""
    options = len(OPTIONS)
    assert all(len(set(marks[:options])) == options for marks in (MARKERS, HATCHES, SERIES))
    assert len(set(DASHES)) == len(DASHES) == 4


def test_the_ticks_of_a_logarithmic_axis_are_plain_numbers() -> None:
    figure = Figure()
    axes = figure.subplots()
    axes.plot([0, 1], values := [0.02, 20_000.0])
    assert upright(axes, values, 10)
    figure.canvas.draw()
    ticks = [label.get_text() for label in axes.get_yticklabels()]
    assert {"0.1", "1", "10", "10000"} <= set(ticks)
